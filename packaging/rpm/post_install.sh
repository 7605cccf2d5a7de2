# $1: 1 at the first installation, 2 at an upgrade. An upgrade restarts a daemon that runs, without a wait for its Redis.
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || :
    if [ "$1" -gt 1 ]; then
        systemctl try-restart --no-block topupd.service || :
    fi
fi
