#!/bin/sh
# Takes 300 ms to say hello.
read -r line
sleep 0.3
echo '{"jsonrpc":"2.0","id":1,"result":{"ok":true}}'
while read -r line; do :; done
