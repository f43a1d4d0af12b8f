"""`python -m ut_decoding` is the command `ut-decode`."""

import sys

from ._tool import main

sys.exit(main())
