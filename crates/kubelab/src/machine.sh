# PID 1 of a machine. It runs in namespaces of its own (network, mounts, processes, names, IPC) on the
# file system of the host, makes of it what a machine needs for itself, and becomes the reaper.
#
# $1: the machine's name   $2: its folder, whose `disk` survives a reboot   $3: the reaper
# $4: the file that says it is ready   $5: its nameserver

set -eu
hostname "$1"
disk=$2/disk

# What is written there stays on the machine's own disk.
for dir in /etc /opt /root /usr/libexec /var/lib; do
    [ -d "$dir" ] || continue
    mkdir -p "$disk/over$dir" "$disk/work$dir"
    mount -t overlay overlay -o "lowerdir=$dir,upperdir=$disk/over$dir,workdir=$disk/work$dir" "$dir"
done
# And of that, nothing is the host's. Containers' file systems cannot be on an overlay, either.
for dir in /etc/cni /etc/openvswitch /etc/osier /opt/cni /var/lib/cni /var/lib/containerd \
    /var/lib/kubelet /var/lib/openvswitch /var/lib/osier /var/log; do
    mkdir -p "$dir" "$disk/own$dir"
    mount --bind "$disk/own$dir" "$dir"
done
mkdir -p /etc/cni/net.d /opt/cni/bin /var/log/openvswitch
rm -f /etc/resolv.conf
echo "nameserver $5" >/etc/resolv.conf

# sysfs shows the network namespace of who mounts it. Control groups are the host's.
mkdir -p "$2/cgroup"
mount --rbind /sys/fs/cgroup "$2/cgroup"
mount -t sysfs sysfs /sys
mount --rbind "$2/cgroup" /sys/fs/cgroup
umount -l "$2/cgroup"

mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/lock /run/netns /run/openvswitch

# A machine that was made anew has booted.
cat /proc/sys/kernel/random/uuid >/run/boot_id
mount --bind /run/boot_id /proc/sys/kernel/random/boot_id

mount --make-rshared /
: >"$4"
exec "$3"
