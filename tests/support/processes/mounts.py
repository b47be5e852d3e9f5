"""Folders on disks of their own: small ones, and such that cannot be written; skipped where it is not allowed."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[None]:
    """Let a folder be a disk of this many bytes."""
    _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder)
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def enlarge(folder: Path, size: int) -> None:
    """Change the size of a small disk."""
    _mount("-o", f"remount,size={size}", folder)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Let nothing below a folder be written: by its mode, or where that does not bind this user by a mount."""
    if os.geteuid():
        paths = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
        for path in paths:
            path.chmod(0o555)
        try:
            yield
        finally:
            for path in paths:
                path.chmod(0o755)
        return
    _mount("--bind", folder, folder)
    try:
        _mount("-o", "remount,bind,ro", folder)
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def _mount(*arguments: str | Path) -> None:
    try:
        done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip(f"this user cannot mount: {done.stderr.strip()}")
