# $1: 0 at a removal, 1 at an upgrade.
if [ "$1" -eq 0 ] && [ -d /run/systemd/system ]; then
    systemctl disable --now topupd.service || :
fi
