#!/bin/sh
# Stands in for an agent: takes the sum out of the question and works it out.
set -eu
sum=$(sed 's/[^-0-9+*() ]//g')

if [ "$STYLE" = careful ]; then
    answer=$(($sum))
    echo "$sum = $answer" > work.txt
else
    # From left to right, without a look at what binds tighter.
    set -f
    # shellcheck disable=SC2046,SC2086 # the words of the sum are wanted
    set -- $(echo $sum | tr -d '()')
    answer=$1
    shift
    while [ $# -ge 2 ]; do
        answer=$((answer $1 $2))
        shift 2
    done
fi
echo "The answer is $answer"
