"""What single commands may do, as tables: who is refused, who starts another command, who writes where."""

from dataclasses import dataclass

_RIGHTS = (
    "it needs more rights than the build has. Do without it; if the feature cannot, say so in your summary."
)
_MACHINE = (
    "it changes the machine, not the project. Do without it; if the feature cannot, say so in your summary."
)
_NETWORK = "it reaches other machines. Use what is in the worktree, or a local stand-in."
_FORGE = "autoforge opens and updates the pull request itself."
_HIDES = "it hides which command runs. Write the command out."
_PUBLISH = "nothing is published from a build."
_OTHERS = (
    "it also ends processes of others. Keep the pid when you start one (`cmd & pid=$!`) and `kill $pid`."
)
_AGENT = "an agent outside of this build's budget and rules is not started. Do the work yourself."

_GROUPS = {
    _RIGHTS: "sudo su doas pkexec runuser chroot unshare nsenter setpriv setcap capsh visudo",
    _MACHINE: "mkfs fdisk sfdisk gdisk parted wipefs mount umount losetup swapon swapoff shutdown reboot poweroff halt init "
    "telinit systemctl systemd-run service launchctl iptables ip6tables nft ufw firewall-cmd sysctl modprobe insmod rmmod "
    "crontab at batch useradd userdel usermod adduser deluser groupadd groupdel passwd chpasswd chsh hostnamectl",
    _NETWORK: "ssh scp sftp ftp lftp telnet nc ncat netcat rsh rlogin mosh sshfs ssh-add ssh-copy-id",
    _FORGE: "gh hub glab tea",
    _HIDES: "alias enable hash coproc parallel script entr busybox toybox ! { } ( ) if then else elif fi for while until do "
    "done case esac select function",
    _PUBLISH: "twine",
    _OTHERS: "pkill killall killall5 fuser",
    _AGENT: "claude autoforge codex",
}
REFUSED = {name: why for why, names in _GROUPS.items() for name in names.split()}

PUBLISHING = {
    "npm": {"publish", "unpublish", "login", "adduser", "token", "owner", "access", "deprecate", "dist-tag"},
    "pnpm": {"publish", "login"},
    "yarn": {"publish", "login", "npm publish"},
    "bun": {"publish"},
    "cargo": {"publish", "login", "owner", "yank"},
    "docker": {"login", "push"},
    "podman": {"login", "push"},
    "gem": {"push", "signin", "owner", "yank"},
    "poetry": {"publish"},
    "uv": {"publish"},
    "hatch": {"publish"},
    "flit": {"publish"},
    "pdm": {"publish"},
    "helm": {"push"},
}
PUBLISHING_WHY = _PUBLISH

SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish"}


@dataclass(frozen=True)
class Starter:
    """A command that starts another: its options that take a value, and how many words stand in front of it."""

    valued: tuple[str, ...] = ()
    before: int = 0
    looks_up: tuple[str, ...] = ()  # with one of these nothing is started


STARTERS = {
    "command": Starter(looks_up=("-v", "-V", "-pv", "-pV")),
    "builtin": Starter(),
    "exec": Starter(("-a",)),
    "nohup": Starter(),
    "setsid": Starter(),
    "chronic": Starter(),
    "unbuffer": Starter(),
    "caffeinate": Starter(("-t", "-w")),
    "time": Starter(("-f", "--format", "-o", "--output")),
    "timeout": Starter(("-k", "--kill-after", "-s", "--signal"), before=1),
    "gtimeout": Starter(("-k", "--kill-after", "-s", "--signal"), before=1),
    "nice": Starter(("-n", "--adjustment")),
    "ionice": Starter(("-c", "--class", "-n", "--classdata")),
    "chrt": Starter(("-T", "-P", "-D"), before=1),
    "taskset": Starter(before=1),
    "stdbuf": Starter(("-i", "--input", "-o", "--output", "-e", "--error")),
    "flock": Starter(("-w", "--timeout", "-E", "--conflict-exit-code"), before=1),
    "xargs": Starter(
        ("-I", "-n", "-P", "-d", "-a", "-s", "-L", "-E", "--max-args", "--max-procs", "--delimiter", "--arg-file",
         "--max-lines", "--max-chars", "--process-slot-var")
    ),
    "watch": Starter(("-n", "--interval")),
    "strace": Starter(("-o", "-e", "-s", "-P", "-E", "-u")),
    "ltrace": Starter(("-o", "-e", "-s", "-u")),
    "xvfb-run": Starter(("-n", "-s", "-e", "-f", "-w")),
    "dbus-run-session": Starter(),
    "hyperfine": Starter(("-w", "--warmup", "-r", "--runs", "-p", "--prepare", "-m", "-M")),
    "npx": Starter(("-p", "--package")),
    "bunx": Starter(),
    "uvx": Starter(("--from", "--with", "-p", "--python")),
    "uv run": Starter(("--with", "-p", "--python", "--package", "--extra", "--group", "--directory", "--project", "--env-file")),
    "poetry run": Starter(),
    "pipenv run": Starter(),
    "pdm run": Starter(),
    "hatch run": Starter(),
    "rye run": Starter(),
    "bundle exec": Starter(),
    "npm exec": Starter(("-p", "--package")),
    "pnpm exec": Starter(),
    "pnpm dlx": Starter(),
    "yarn exec": Starter(),
    "yarn dlx": Starter(),
    "mise exec": Starter(),
    "direnv exec": Starter(before=1),
}  # fmt: skip
AS_TEXT = {"watch", "hyperfine", "npx", "npm exec"}
"""They may hand their words to a shell as text."""


@dataclass(frozen=True)
class Writer:
    """A command that changes the files it names; with `into`, the last of them is where the others go."""

    into: bool = False
    reads: bool = False  # the others are only read
    destructive: bool = False
    removes: bool = False
    valued: tuple[str, ...] = ()


WRITERS = {
    "rm": Writer(destructive=True, removes=True),
    "rmdir": Writer(destructive=True, removes=True),
    "unlink": Writer(destructive=True, removes=True),
    "mv": Writer(destructive=True, removes=True, into=True, valued=("-S", "--suffix")),
    "shred": Writer(destructive=True, valued=("-n", "--iterations", "-s", "--size")),
    "truncate": Writer(destructive=True, valued=("-s", "--size", "-r", "--reference")),
    "chmod": Writer(),
    "chown": Writer(),
    "chgrp": Writer(),
    "touch": Writer(valued=("-d", "--date", "-t", "-r", "--reference")),
    "mkdir": Writer(valued=("-m", "--mode")),
    "mkfifo": Writer(valued=("-m", "--mode")),
    "tee": Writer(),
    "cp": Writer(into=True, reads=True, valued=("-S", "--suffix")),
    "install": Writer(into=True, reads=True, valued=("-m", "--mode", "-o", "--owner", "-g", "--group", "-S", "--suffix")),
    "ln": Writer(into=True, reads=True, valued=("-S", "--suffix")),
    "rsync": Writer(into=True, reads=True, valued=("-e", "--rsh", "--exclude", "--include", "--filter", "-f")),
}  # fmt: skip

OUTPUTS = {
    "cp": ("-t", "--target-directory"),
    "mv": ("-t", "--target-directory"),
    "ln": ("-t", "--target-directory"),
    "install": ("-t", "--target-directory"),
    "curl": ("-o", "--output", "--output-dir", "-D", "--dump-header", "-c", "--cookie-jar"),
    "wget": ("-O", "--output-document", "-P", "--directory-prefix", "-o", "--output-file"),
    "tar": ("-C", "--directory"),
    "unzip": ("-d",),
    "sort": ("-o", "--output"),
    "patch": ("-d", "--directory", "-o", "--output"),
    "gcc": ("-o",),
    "cc": ("-o",),
    "find": ("-fprint", "-fprint0", "-fls", "-fprintf"),
}
"""Options whose value is a path that is written."""
