#!/bin/sh
# Installs the MindEdge agent on a Debian-like device: Raspberry Pi OS, JetPack (Ubuntu for Tegra), Ubuntu, Debian.
# Safe to run again: it upgrades. The folder it lies in must hold systemd/mindie.service and board_runtime.py too.
set -eu

PREFIX=/opt/mindedge
DATA=/var/lib/mindedge/agent
ACCOUNT=mindie
UNIT=/etc/systemd/system/mindie.service
DEFAULTS=/etc/default/mindie
COMMAND=/usr/local/bin/mindie
# Who may open an accelerator: GPU and NPU nodes, USB sticks, Coral PCIe cards, Ascend.
GROUPS_WANTED="video render plugdev apex HwHiAiUser"
OLDEST_PYTHON="3.10"

usage() {
  cat <<'TEXT'
usage: install-agent.sh [options]              install the agent, or upgrade it
       install-agent.sh [options] uninstall    remove it; --purge removes its data and account too

options:
  --wheel FILE     the agent's wheel (default: mindedge from pip's index)
  --runtime NAME   instead of what this board's profile says: onnxruntime, openvino, litert, tflite or none
                   (may be repeated)
  --python PATH    the Python to build on, 3.10 or newer (default python3)
  --no-service     install no systemd unit
  --dry-run        say what would be done, change nothing
  --root DIR       with --dry-run: a recorded device that stands for /
  --purge          with uninstall: delete the data folder and the account as well
Exit status: 0 done, 1 failed, 2 used wrongly or not fit for this device.

examples:
  sudo sh install-agent.sh --wheel mindedge-0.1.0-py3-none-any.whl
  sudo sh install-agent.sh --runtime litert
  sh install-agent.sh --dry-run
TEXT
}

say() { printf 'install-agent: %s\n' "$*" >&2; }
refuse() {
  say "$*"
  exit 2
}
fail() {
  say "$*"
  exit 1
}

HERE=$(cd "$(dirname "$0")" && pwd)
VERB=install
DRY_RUN=
ROOT=
WHEEL=
RUNTIMES=
PYTHON=
SERVICE=1
PURGE=

need_value() { [ $# -ge 2 ] || refuse "$1 needs a value (see --help)"; }
while [ $# -gt 0 ]; do
  case $1 in
    --wheel) need_value "$@"; WHEEL=$2; shift 2 ;;
    --runtime) need_value "$@"; RUNTIMES="$RUNTIMES $2"; shift 2 ;;
    --python) need_value "$@"; PYTHON=$2; shift 2 ;;
    --root) need_value "$@"; ROOT=$2; shift 2 ;;
    --no-service) SERVICE=; shift ;;
    --dry-run) DRY_RUN=1; shift ;;
    --purge) PURGE=1; shift ;;
    -h | --help) usage; exit 0 ;;
    install | uninstall) VERB=$1; shift ;;
    *) refuse "unknown argument $1 (see --help)" ;;
  esac
done

# --- how things are done --------------------------------------------------------------------------------------------

# Everything that changes the device goes through here.
run() {
  if [ -n "$DRY_RUN" ]; then
    printf '+ %s\n' "$*"
  else
    "$@"
  fi
}

step() { say "$*"; }
exists() { [ -e "$ROOT$1" ]; }
has_systemd() { [ -n "$SERVICE" ] && [ -d "$ROOT/run/systemd/system" ]; }
has_account() { grep -q "^$ACCOUNT:" "$ROOT/etc/passwd" 2>/dev/null; }
has_group() { grep -q "^$1:" "$ROOT/etc/group" 2>/dev/null; }

check_call() {
  [ -z "$ROOT" ] || [ -n "$DRY_RUN" ] || refuse "--root goes with --dry-run only"
  [ -z "$PURGE" ] || [ "$VERB" = uninstall ] || refuse "--purge goes with uninstall only"
  [ -z "$WHEEL" ] || [ -f "$WHEEL" ] || refuse "--wheel $WHEEL: no such file"
  [ -z "$ROOT" ] || [ -d "$ROOT" ] || refuse "--root $ROOT: no such folder"
  [ -n "$DRY_RUN" ] || [ "$(id -u)" = 0 ] || refuse "needs root rights: sudo sh install-agent.sh ... (or --dry-run)"
  exists /etc/debian_version || refuse "this is no Debian-like system; docs/boards.md says how to install by hand"
  for file in systemd/mindie.service board_runtime.py; do
    [ -f "$HERE/$file" ] || refuse "$file must lie beside this script ($HERE)"
  done
}

# --- what this device is --------------------------------------------------------------------------------------------

is_jetpack() { exists /etc/nv_tegra_release; }

# "3.11". In a recorded root nothing is executed: the link's target says it.
python_version() {
  if [ -n "$ROOT" ]; then
    readlink "$ROOT/usr/bin/python3" | sed -n 's/.*python\(3\.[0-9][0-9]*\)$/\1/p'
  else
    "$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true
  fi
}

choose_python() {
  PYTHON=${PYTHON:-python3}
  version=$(python_version)
  [ -n "$version" ] || fail "$PYTHON does not run; apt-get install python3, or --python PATH"
  minor=${version#*.}
  [ "$minor" -ge "${OLDEST_PYTHON#*.}" ] || fail \
    "Python $version is too old ($OLDEST_PYTHON or newer): unpack a stand-alone CPython and give it as --python PATH; docs/boards.md says how"
  if is_jetpack; then say "Python $version, JetPack"; else say "Python $version"; fi
}

# --- steps ----------------------------------------------------------------------------------------------------------

install_packages() {
  [ -z "$ROOT" ] && "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null && return 0
  [ "$PYTHON" = python3 ] || fail "$PYTHON has no venv module"
  step "python3-venv"
  run apt-get install -y --no-install-recommends python3-venv
}

make_account() {
  step "account $ACCOUNT"
  has_account || run useradd --system --user-group --no-create-home --home-dir "$DATA" --shell /usr/sbin/nologin "$ACCOUNT"
  for group in $GROUPS_WANTED; do
    if has_group "$group"; then run usermod --append --groups "$group" "$ACCOUNT"; fi
  done
  run install -d -m 0755 /var/lib/mindedge
  run install -d -m 0700 -o "$ACCOUNT" -g "$ACCOUNT" "$DATA"
}

# JetPack's own packages (onnxruntime-gpu, TensorRT) are made for the system's Python: the environment sees them there,
# and NumPy stays at 1, which both old and new builds of them take.
make_environment() {
  step "environment $PREFIX"
  if is_jetpack; then
    run "$PYTHON" -m venv --upgrade-deps --system-site-packages "$PREFIX"
  else
    run "$PYTHON" -m venv "$PREFIX"
  fi
}

pip_install() {
  if is_jetpack; then set -- "$@" "numpy<2"; fi
  run "$PREFIX/bin/python" -m pip --disable-pip-version-check install --upgrade --upgrade-strategy only-if-needed "$@"
}

requirement() { printf '%s[%s]' "${WHEEL:-mindedge}" "$1"; }

install_agent() {
  step "agent from ${WHEEL:-the package index}"
  upgrade=
  if exists "$PREFIX/bin/mindie"; then upgrade=1; fi
  pip_install "$(requirement agent)"
  # The same version number may hold other code: a wheel that is given is always put in.
  if [ -n "$WHEEL" ] && [ -n "$upgrade" ]; then
    run "$PREFIX/bin/python" -m pip --disable-pip-version-check install --force-reinstall --no-deps "$WHEEL"
  fi
}

# As the daemon would see it: with the account's groups and in its data folder.
as_account() { runuser -u "$ACCOUNT" -- env MINDEDGE_DATA="$DATA" HOME="$DATA" "$@"; }

# The extras of the board's profile, one a line; reasons on stderr.
runtimes_here() {
  set --
  for name in $RUNTIMES; do set -- "$@" --runtime "$name"; done
  if [ -z "$DRY_RUN" ]; then
    as_account "$PREFIX/bin/mindie" probe --json | "$PREFIX/bin/python" "$HERE/board_runtime.py" "$@"
    return
  fi
  # Nothing is installed yet: a Python that has the agent already (a checkout's) can tell all the same.
  local_python=${MINDIE_PYTHON:-python3}
  if ! "$local_python" -c 'import agent.hardware, edge_contracts.profiles' 2>/dev/null; then
    say "which runtimes: mindie probe would tell, after the agent is installed"
    return 0
  fi
  if [ -n "$ROOT" ]; then
    set -- --recorded --python "$(python_version)" "$@"
    for site in "$ROOT"/usr/lib/python3/dist-packages "$ROOT"/usr/local/lib/python3*/dist-packages; do
      if [ -d "$site" ]; then set -- --site "$site" "$@"; fi
    done
    "$local_python" -m agent probe --root "$ROOT" --json 2>/dev/null | "$local_python" "$HERE/board_runtime.py" "$@"
  else
    "$local_python" -m agent probe --json 2>/dev/null | "$local_python" "$HERE/board_runtime.py" "$@"
  fi
}

install_runtimes() {
  case " $RUNTIMES " in *" none "*)
    say "no runtime, as asked"
    return 0
    ;;
  esac
  step "runtimes for this board"
  chosen=$(runtimes_here) || refuse "no runtime was installed"
  for extra in $chosen; do pip_install "$(requirement "$extra")"; done
  if [ -z "$chosen" ] && [ -z "$DRY_RUN" ]; then
    say "no runtime was installed: the agent cannot serve yet; docs/boards.md says which one fits"
  fi
}

write_defaults() {
  exists "$DEFAULTS" && return 0
  step "$DEFAULTS"
  if [ -n "$DRY_RUN" ]; then
    printf '+ write %s\n' "$DEFAULTS"
    return 0
  fi
  cat >"$DEFAULTS" <<'TEXT'
# Settings of the MindEdge agent, one variable per key of its configuration:
#MINDEDGE_AGENT_HOST=0.0.0.0
#MINDEDGE_AGENT_PORT=8000
#MINDEDGE_AGENT_CPUS=0-2
TEXT
}

# What root does with the daemon's data must stay the daemon's: no file of root's may lie in its folder.
write_command() {
  step "command $COMMAND"
  if [ -n "$DRY_RUN" ]; then
    printf '+ write %s\n' "$COMMAND"
    return 0
  fi
  cat >"$COMMAND" <<TEXT
#!/bin/sh
# Installed by install-agent.sh. Root works on the daemon's data folder, as the daemon's account.
if [ "\$(id -u)" = 0 ]; then
  exec runuser -u $ACCOUNT -- env HOME=$DATA MINDEDGE_DATA="\${MINDEDGE_DATA:-$DATA}" $PREFIX/bin/mindie "\$@"
fi
exec $PREFIX/bin/mindie "\$@"
TEXT
  chmod 0755 "$COMMAND"
}

install_service() {
  write_command
  if ! has_systemd; then
    say "no systemd here (or --no-service): start the agent with  sudo mindie run"
    return 0
  fi
  write_defaults
  step "service mindie"
  run install -m 0644 "$HERE/systemd/mindie.service" "$UNIT"
  run systemctl daemon-reload
  run systemctl enable mindie.service
  run systemctl restart mindie.service
}

install_all() {
  choose_python
  install_packages
  make_account
  make_environment
  install_agent
  install_runtimes
  install_service
  say "done. Next:"
  say "  sudo mindie doctor                                        what is wrong here, and its fix"
  say "  sudo mindie enroll --token-file - < TOKEN_FILE            join a fleet, then: systemctl restart mindie"
  say "  sudo mindie install /var/lib/mindedge/NAME.mindie         or take a bundle, from where $ACCOUNT may read it"
}

uninstall() {
  if has_systemd && exists "$UNIT"; then
    run systemctl disable --now mindie.service
    run rm -f "$UNIT"
    run systemctl daemon-reload
  fi
  run rm -f "$COMMAND"
  run rm -rf "$PREFIX"
  if [ -z "$PURGE" ]; then
    say "removed; the data in $DATA, $DEFAULTS and the account $ACCOUNT are kept (--purge removes them)"
    return 0
  fi
  run rm -rf "$DATA"
  run rm -f "$DEFAULTS"
  run rmdir --ignore-fail-on-non-empty /var/lib/mindedge
  if has_account; then run userdel "$ACCOUNT"; fi
  say "removed, with its data"
}

umask 022
check_call
case $VERB in
  install) install_all ;;
  uninstall) uninstall ;;
esac
