#!/usr/bin/env bash
# Runs a command on the first of two nodes that share a disk and nothing else: network namespaces with a cable between
# them. Whatever mpirun starts on the second has memory (/dev/shm) of its own.
# usage: unshare --net two_nodes.sh FOLDER COMMAND...    FOLDER gets `agent`, by which mpirun reaches the second.
set -euo pipefail
folder=$1
shift
ip link set lo up
unshare --net sleep 600 </dev/null >/dev/null 2>&1 &
second=$!
trap 'kill $second' EXIT
until [ "$(readlink /proc/$second/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.02; done
ip link add cable0 type veth peer name cable1 netns "$second"
ip addr add 10.11.0.1/24 dev cable0
ip link set cable0 up
nsenter --target "$second" --net sh -c 'ip link set lo up; ip addr add 10.11.0.2/24 dev cable1; ip link set cable1 up'
cat >"$folder/agent" <<END
#!/bin/sh
shift
exec nsenter --target $second --net unshare --uts --mount sh -c 'hostname second && mount -t tmpfs none /dev/shm && exec sh -c "\$*"' agent "\$@"
END
chmod +x "$folder/agent"
"$@"
