#!/bin/sh
# The first process of a guest; microvm_guest.py is at the other end of its ports. It mounts the image and
# the scratch disk, holds the job to its limits, and does what the port `ctl` says, one line at a time:
#   fill           unpack what comes through the port `fill` into the workspace    -> filled CODE
#   run TOKEN N M  N bytes of launcher and M of script follow                      -> started, exit CODE KILLS
#   term, kill     end all processes of the job                                    -> killed (of kill)
#   pack           the workspace, as a tar, into the port `pack`                   -> packed CODE
#   off            put all away and end                                            -> off
# Unasked it says `ready`, `use` (see tell) and, where it cannot go on, `fail WORDS`. TOKEN comes through
# the port `out` behind the last byte that the step wrote.
# The job has namespaces of its own, held by a process outside its control group: it cannot end by accident
# what reports it. Words of the kernel's command line with a `=` arrive as variables: shunter_layer,
# shunter_memory (bytes), shunter_processes, shunter_network (the first three parts of its addresses).

fail() {
    echo "fail $*" >&3
    sleep 60 # it is ended from outside; this is for one that nobody hears
    poweroff -f
}

# In the job's namespaces: make its root, tell who we are, and reap its orphans.
hold() {
    read -r pid _ </proc/self/stat
    upper=/rw/layer-$shunter_layer/u work=/rw/layer-$shunter_layer/w
    mount -t overlay -o "lowerdir=/lower,upperdir=$upper,workdir=$work" overlay /new || exit 1
    mkdir -p /new/proc /new/sys /new/dev /new/work /new/run /new/tmp /new/root /new/etc
    chmod 1777 /new/tmp
    mount -t proc proc /new/proc && mount -t sysfs -o ro sys /new/sys &&
        mount -t tmpfs -o mode=755,size=1m dev /new/dev || exit 1
    while read -r name major minor; do mknod -m 666 "/new/dev/$name" c "$major" "$minor"; done <<END
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
END
    mkdir /new/dev/pts /new/dev/shm
    mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts /new/dev/pts
    mount -t tmpfs -o "mode=1777,nosuid,nodev,size=$((shunter_memory / 2))" shm /new/dev/shm
    ln -s pts/ptmx /new/dev/ptmx
    ln -s /proc/self/fd /new/dev/fd
    ln -s /proc/self/fd/0 /new/dev/stdin
    ln -s /proc/self/fd/1 /new/dev/stdout
    ln -s /proc/self/fd/2 /new/dev/stderr
    mount --bind /rw/work /new/work &&
        mkdir -p /new/run/shunter && mount --bind /steps /new/run/shunter || exit 1
    if [ -n "$shunter_network" ]; then
        rm -f /new/etc/resolv.conf
        echo "nameserver $shunter_network.3" >/new/etc/resolv.conf
    fi
    hostname job
    cd /new && mount --move . / || exit 1
    echo "$pid" >/held
    while :; do
        sleep 1000 &
        wait $!
    done
}

export PATH=/bin
if [ "$1" = hold ]; then hold; fi

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in /lib/*.ko ${shunter_network:+/lib/network/*.ko}; do
    insmod "$module" || echo "cannot load $module"
done
tries=0
while [ -z "$ctl" ] || [ -z "$out" ] || [ -z "$fill" ] || [ -z "$pack" ]; do
    for port in /sys/class/virtio-ports/*; do
        read -r name <"$port/name" && [ -c "/dev/${port##*/}" ] || continue
        case $name in ctl | out | fill | pack) eval "$name=/dev/${port##*/}" ;; esac
    done 2>/dev/null
    tries=$((tries + 1))
    [ $tries -lt 1000 ] || poweroff -f
    usleep 10000
done
exec 3<>"$ctl" 4>"$out"

for disk in /sys/block/vd*; do
    read -r name <"$disk/serial"
    case $name in image | scratch) eval "$name=/dev/${disk##*/}" ;; esac
done
mount -t squashfs -o ro "$image" /lower || fail "the image cannot be mounted: is it a squashfs file?"
mount -t ext4 -o noatime,noinit_itable "$scratch" /rw || fail "the scratch disk cannot be mounted"
mkdir -p "/rw/layer-$shunter_layer/u" "/rw/layer-$shunter_layer/w" /rw/work || fail "no room on the scratch disk"

mount -t cgroup2 cg /cg && echo "+memory +pids" >/cg/cgroup.subtree_control && mkdir /cg/job ||
    fail "no control groups"
# What is left beside the job is for this script and the kernel: a job that takes too much is killed by its
# own limit, which is told, and not by the guest's end, which is not.
while read -r name size _; do
    if [ "$name" = MemAvailable: ]; then most=$(((size - 24576) * 1024)); fi
done </proc/meminfo
if [ "$shunter_memory" -gt "$most" ]; then shunter_memory=$most; fi
echo "$shunter_memory" >/cg/job/memory.max && echo "$shunter_processes" >/cg/job/pids.max || fail "no limits"

ip link set lo up
if [ -n "$shunter_network" ]; then
    ip addr add "$shunter_network.15/24" dev eth0 && ip link set eth0 up &&
        ip route add default via "$shunter_network.2" || fail "no network"
fi

mount -t tmpfs -o size=20m,mode=755 steps /steps && cp /bin/busybox /steps || fail "no memory"
unshare -m -p -i -u -f sh /init hold 3>&- 4>&- &
holder=$!
tries=0
while ! [ -s /held ]; do
    tries=$((tries + 1))
    [ $tries -lt 1000 ] && kill -0 $holder 2>/dev/null || fail "the image cannot be laid"
    usleep 10000
done
read -r held </held

# Through a pipe, for a port can be opened once only, and steps open /dev/stdout again.
mkfifo /output /never
exec 5<>/output 6<>/never
cat <&5 >&4 3>&- 5>&- 6>&- &

# use MEMORY BLOCKS FREE AVAILABLE SIZE: bytes, without what could be dropped at once; blocks of SIZE bytes
tell() {
    read -r taken </cg/job/memory.current
    while read -r name size; do
        if [ "$name" = inactive_file ]; then
            taken=$((taken - size))
            break
        fi
    done </cg/job/memory.stat
    echo "use $taken $(stat -f -c "%b %f %a %S" /rw)" >&3
}

watch() {
    while :; do
        read -r -t 0.5 _ <&6
        tell
    done
}

step() { # TOKEN
    # In a shell below, for one that waits writes "Killed" where what it waits for is told to write.
    (exec sh /launcher "$held") 9>/cg/job/cgroup.procs </dev/null >&5 2>&1 3>&- 4>&- 5>&- 6>&-
    code=$?
    printf %s "$1" >&5
    while read -r name kills; do
        if [ "$name" = oom_kill ]; then break; fi
    done </cg/job/memory.events
    tell
    echo "exit $code $kills" >&3
}

killed() {
    echo 1 >/cg/job/cgroup.kill
    tries=0
    while read -r line </cg/job/cgroup.procs && [ $tries -lt 500 ]; do
        tries=$((tries + 1))
        usleep 10000
    done
}

tell
echo ready >&3
watch &
watcher=$!
while read -r word token first second <&3; do
    case $word in
    fill)
        tar -x -C /rw/work -f "$fill"
        echo "filled $?" >&3
        ;;
    run)
        dd bs=65536 iflag=fullblock,count_bytes count="$first" status=none <&3 >/launcher
        dd bs=65536 iflag=fullblock,count_bytes count="$second" status=none <&3 >/steps/step
        echo started >&3
        step "$token" &
        ;;
    term)
        while read -r pid; do kill -TERM "$pid"; done </cg/job/cgroup.procs
        while read -r pid; do kill -CONT "$pid"; done </cg/job/cgroup.procs
        ;;
    kill)
        killed
        echo killed >&3
        ;;
    pack)
        tar -c -C /rw/work -f "$pack" .
        echo "packed $?" >&3
        ;;
    off) break ;;
    esac
done
kill -9 $watcher
killed
kill -9 $held
umount /rw || sync
echo off >&3
poweroff -f
