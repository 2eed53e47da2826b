"""Runs as a script: shuts itself in as it is told, then runs one solution. Standard library only.

The caller is `sapo_vl.verifiers.sandbox`; see there for what is promised. Processes: this one (A)
makes the namespaces and waits; its child (B) is process 1 of the new process namespace, so that the
kernel kills everything inside with it; B's child (C) drops every privilege and runs the solution.
Without namespaces ("process") A becomes C.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import resource
import signal
import sys
import types
from typing import Any

_NAMESPACES = 0x00020000 | 0x04000000 | 0x08000000 | 0x20000000 | 0x40000000  # ns uts ipc pid net
_NEW_USER = 0x10000000
_BIND, _REC, _PRIVATE, _NOSUID, _NODEV = 0x1000, 0x4000, 0x40000, 2, 4
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_ATTRIBUTES = 1 | 2 | 4  # read-only, no set-user-id, no devices
_PDEATHSIG, _DUMPABLE, _NO_NEW_PRIVS = 1, 4, 38
_CAPABILITIES_V3 = 0x20080522
_NOBODY, _INSIDE_UID = 65_534, 1000
_MB = 1 << 20
_STACK_MB = 128
_ROOT = "/proc"  # a folder that exists everywhere and is of no use inside; covered here alone
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> int:
    """Run what file descriptor ``argv[1]`` describes; say on ``argv[2]`` when it begins."""
    with os.fdopen(int(sys.argv[1]), "rb") as file:
        job = json.load(file)
    said = int(sys.argv[2])
    try:
        _die_with(job["parent"])
        driver = _load_driver(job["driver"])
        if job["isolation"] == "strict":
            _enter_namespaces()
            _build_root(job["scratch_mb"])
            _become_inner(said)
        _drop_privileges(job)
        _limit(job)
    except OSError as error:
        os.write(said, f"{error.strerror or error}: {error.filename or 'set-up'}".encode())
        os._exit(97)
    os.write(said, f"ready {os.getuid()}".encode())
    os.close(said)
    # Returns into no code of A or B: the interpreter ends here, after the solution's threads.
    return int(driver.run(job["code"], job["function"]))


def _load_driver(path: str) -> types.ModuleType:
    # By path: the folder must not be importable, its math.py would hide the standard one.
    spec = importlib.util.spec_from_file_location("sandbox_driver", path)
    if spec is None or spec.loader is None:
        raise OSError(0, "cannot load", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _die_with(parent: int | None) -> None:
    """Be killed when the process that started this one ends, even if it is killed itself."""
    _call("prctl", _PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent is not None and os.getppid() != parent:
        raise OSError(0, "the caller has ended", None)


def _call(name: str, *arguments: Any) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), f"{name}{arguments[:2]}")


def _enter_namespaces() -> None:
    user, group = os.geteuid(), os.getegid()
    _call("unshare", _NAMESPACES | (_NEW_USER if user else 0))
    if user:  # an ordinary user has the rights to mount only in a user namespace of its own
        maps = {"setgroups": "deny", "uid_map": user, "gid_map": group}
        for name, value in maps.items():
            with open(f"/proc/self/{name}", "w") as file:
                file.write(str(value) if name == "setgroups" else f"{_INSIDE_UID} {value} 1")
    _call("mount", b"none", b"/", None, _REC | _PRIVATE, None)


def _build_root(size_mb: int) -> None:
    """Mount a small file system in memory that holds the interpreter and little else."""
    options = f"size={size_mb}m,nr_inodes=4k,mode=755".encode()
    _call("mount", b"tmpfs", _ROOT.encode(), b"tmpfs", _NOSUID | _NODEV, options)
    libraries = {*_LIBRARIES, os.path.join(sys.base_prefix, "lib"), os.path.dirname(os.__file__)}
    for source in sorted(libraries):
        target = _ROOT + source
        if os.path.islink(source):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.symlink(os.readlink(source), target)
        elif os.path.isdir(source) and not os.path.isdir(target):
            os.makedirs(target)
            _bind(source, target)
            attributes = (ctypes.c_uint64 * 4)(_ATTRIBUTES, 0, 0, 0)
            where = (ctypes.c_long(_AT_FDCWD), target.encode(), _AT_RECURSIVE)
            size = ctypes.sizeof(attributes)
            _call("syscall", ctypes.c_long(_MOUNT_SETATTR), *where, attributes, size)
    os.makedirs(_ROOT + "/dev")
    with open(_ROOT + "/dev/null", "w"):
        pass
    _bind("/dev/null", _ROOT + "/dev/null")
    os.mkdir(_ROOT + "/tmp")
    os.chmod(_ROOT + "/tmp", 0o1777)


def _bind(source: str, target: str) -> None:
    _call("mount", source.encode(), target.encode(), None, _BIND | _REC, None)


def _become_inner(said: int) -> None:
    """Go on as C; A and B stay behind to wait and end as their child ended."""
    for inner in ("B", "C"):
        child = os.fork()
        if child:
            os.close(said)
            _follow(child)
        if inner == "B":
            # B dies with A, and C, which may have the same user, cannot trace it.
            _die_with(None)
            _call("prctl", _DUMPABLE, 0, 0, 0, 0)
    os.chroot(_ROOT)
    os.chdir("/tmp")


def _follow(child: int) -> None:
    while True:
        ended, status = os.wait()  # B also inherits orphans
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def _drop_privileges(job: dict[str, Any]) -> None:
    if job["isolation"] == "process":
        os.chdir(job["scratch"])
    if os.geteuid() == 0:
        if job["isolation"] == "process":
            _check_readable()
        os.setgroups([])
        try:
            _become(job["uid"])
        except OSError:  # a container may know few user numbers
            _become(_NOBODY)
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_V3, 0)
    _call("capset", header, (ctypes.c_uint32 * 6)())
    _call("prctl", _NO_NEW_PRIVS, 1, 0, 0, 0)
    if job["isolation"] == "process":
        _die_with(job["parent"])  # once more: a change of user has undone it


def _become(uid: int) -> None:
    os.chown(".", uid, uid)
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def _check_readable() -> None:
    """Refuse an interpreter in a folder that only root may enter: no import would work."""
    folder = os.path.dirname(os.__file__)
    while True:
        if not os.stat(folder).st_mode & 0o001:
            raise OSError(13, "an unprivileged user cannot reach the interpreter", folder)
        if folder == "/":
            return
        folder = os.path.dirname(folder)


def _limit(job: dict[str, Any]) -> None:
    seconds, memory = job["cpu_seconds"], job["memory_mb"] * _MB
    limits = {
        resource.RLIMIT_STACK: _STACK_MB * _MB,  # deep recursion through C needs more than 8
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_FSIZE: job["scratch_mb"] * _MB,
        resource.RLIMIT_NOFILE: 64,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NPROC: job["processes"] + job["running"],
    }
    for kind, value in limits.items():
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


if __name__ == "__main__":
    sys.exit(main())
