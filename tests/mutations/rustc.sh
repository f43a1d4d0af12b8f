#!/bin/bash
# What cargo calls in place of rustc for the packages of the copy: only so that what is built of them is kept apart from what
# is built of the repository itself. (And what is planted has parentheses that need not be there.)
exec "$@" -Aunused
