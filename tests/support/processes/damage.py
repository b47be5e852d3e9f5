"""Kinds of damage that a disk, a program or a person does to a file."""

import shutil

DAMAGES = {
    "deleted": lambda content: None,
    "emptied": lambda content: b"",
    "cut in half": lambda content: content[: len(content) // 2],
    "first bit flipped": lambda content: bytes([content[0] ^ 1]) + content[1:],
    "middle bit flipped": lambda content: flipped(content, len(content) // 2),
    "last bit flipped": lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    "one byte longer": lambda content: content + b"x",
    "a bracket": lambda content: b"{",
    "null": lambda content: b"null\n",
    "another file": lambda content: b"\x89PNG\r\n" * 500,
    "zeros": lambda content: bytes(len(content)),
    "a folder": lambda content: ...,
}


def flipped(content: bytes, place: int) -> bytes:
    """Return the content with one bit of one byte flipped."""
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def damage(path, kind):
    """Do one kind of damage to a file."""
    content = DAMAGES[kind](path.read_bytes())
    if path.stat().st_mode & 0o200 == 0:
        path.chmod(0o644)
    if content is None or content is ...:
        path.unlink()
    else:
        path.write_bytes(content)
    if content is ...:
        path.mkdir()


def files(folder):
    """Return the content of every file below a folder by name; None of a folder."""
    return {
        path.relative_to(folder).as_posix(): None if path.is_dir() else path.read_bytes() for path in folder.rglob("*")
    }


def copied(run, target):
    """Return a copy of a run."""
    return shutil.copytree(run, target)
