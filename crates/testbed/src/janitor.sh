# Cleans up after one lab, whose owner holds the other end of our standard input: end-of-file means
# that the owner is done, or dead. We are told nothing but the lab's name. Whatever belongs to the
# lab carries it (processes in their environment, namespaces in their name), so nothing can exist
# that we were not told of. Complaints go to standard output.
#
# $1: name of the lab   $2: its directory   $3: the environment variable that marks its processes

# PIPE: an owner that died does not read complaints, and the work goes on.
trap '' HUP INT TERM PIPE
while read -r _; do :; done
exec 2>&1

pids() {
    grep -lzxF "$3=$1" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3
}

# Not once but until none is left, twice in a row: one may have been starting another, whose
# environment cannot be read before its exec is complete.
tries=0
none=0
while [ "$none" -lt 2 ]; do
    left=$(pids "$@")
    if [ -z "$left" ]; then
        none=$((none + 1))
        [ "$none" -lt 2 ] && sleep 0.005
        continue
    fi
    none=0
    tries=$((tries + 1))
    if [ "$tries" -gt 100 ]; then
        echo "processes survive: $left"
        break
    fi
    # A process that went by itself meanwhile is no error.
    kill -KILL $left 2>/dev/null
    sleep 0.02
done

# Control groups, from below; those of processes that are about to end wait for them.
for group in /sys/fs/cgroup/"$1"-* /sys/fs/cgroup/*/"$1"-*; do
    [ -d "$group" ] || continue
    for _ in 1 2 3 4 5; do
        find "$group" -depth -type d -exec rmdir {} + 2>/dev/null
        [ -d "$group" ] || break
        sleep 0.2
    done
    [ ! -d "$group" ] || echo "control group stays: $group"
done

for netns in /run/netns/"$1"-*; do
    [ -e "$netns" ] && ip netns delete "${netns##*/}"
done

grep -F " $2/" /proc/mounts | cut -d" " -f2 | while read -r mount; do
    umount -l "$mount"
done

# Processes of a PID namespace end after the one that carried the lab's name, and may write until then.
for _ in 1 2 3 4 5; do
    rm -rf -- "$2" 2>/dev/null && exit
    sleep 0.2
done
rm -rf -- "$2"
