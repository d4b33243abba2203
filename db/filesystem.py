"""On which kind of file system a path lies, as the kernel tells it."""

import re
from pathlib import Path, PurePosixPath

# fmt: off
_NETWORK = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "drvfs", "fakeowner", "fuse", "gfs2", "glusterfs", "gpfs", "lustre",
    "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "osxfs", "prl_fs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs",
    "vmhgfs",
})
# fmt: on
_MOUNTINFO = Path("/proc/self/mountinfo")


def mount_type(mountinfo: str, path: PurePosixPath) -> str | None:
    """The type of the file system that holds the absolute path; None when no mount point does."""
    best, found = -1, None
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split(" ")
        if len(fields) < 5 or not right:
            continue
        point = PurePosixPath(_decoded(fields[4]))
        # >=: a later line is mounted over an earlier one at the same point
        if path.is_relative_to(point) and len(point.parts) >= best:
            best, found = len(point.parts), right.split(" ")[0]
    return found


def shared_memory_works(path: Path) -> bool:
    """Whether processes on this file system can share memory, which SQLite's WAL needs.

    False on a network file system and on FUSE, where nobody can say. True where the kernel does not tell.
    """
    try:
        mountinfo = _MOUNTINFO.read_text(errors="surrogateescape")
    except OSError:
        return True
    kind = mount_type(mountinfo, PurePosixPath(path)) or ""
    return kind not in _NETWORK and not kind.startswith("fuse.")


def _decoded(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
