#!/bin/sh
# Checks that programs and libraries run with the glibc of Enterprise Linux 9, which is 2.34: that no symbol is wanted of a
# later version. GLIBC=2.28 checks for Enterprise Linux 8, for example.
#
#     capi/check-glibc.sh FILE...
set -eu
[ $# -ge 1 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 2; }
most=${GLIBC:-2.34}
bad=0
for file; do
    [ -f "$file" ] || { echo "$file: there is no such file" >&2; exit 1; }
    newest=$(readelf --wide --version-info "$file" | grep -o 'GLIBC_[0-9][0-9.]*' | sed s/GLIBC_// | sort -uV | tail -n 1)
    [ -n "$newest" ] || { echo "$file: wants no symbol of glibc; is it a program or a shared library?" >&2; exit 1; }
    if [ "$(printf '%s\n%s\n' "$newest" "$most" | sort -V | tail -n 1)" = "$most" ]; then
        echo "$file: needs glibc $newest, so it runs with $most"
    else
        echo "$file: needs glibc $newest, more than $most:" >&2
        readelf --wide --dyn-syms "$file" | grep -E "GLIBC_$newest" >&2 || true
        bad=1
    fi
done
exit $bad
