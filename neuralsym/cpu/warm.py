"""Where images of compiled files are kept: found by what the file holds and how it is to run."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from dataclasses import asdict
from functools import cache
from pathlib import Path

from neuralsym.cpu.image import Image
from neuralsym.cpu.machine import Target, host_identity, llvm_version
from neuralsym.cpu.options import Options
from neuralsym.cpu.quota import default_threads
from neuralsym.cpu.store import Store

log = logging.getLogger("neuralsym")

FORMAT = 2
KIND = "plan"


def find_image(path: Path, options: Options) -> tuple[Image, str] | None:
    """The stored image for a model file, and the digest of the file; None if there is none."""
    if options.profile or options.debug:
        return None
    store = Store.of(options.cache_dir)
    try:
        size = path.stat().st_size
        if store.get(_size_key(size), KIND) is None:
            return None  # files of other sizes need not be read
        digest = digest_of(path, store)
    except (OSError, ValueError):  # the second for names that cannot be
        return None  # whoever reads the file says what is wrong
    target = _known_target(options, store)
    data = store.map(_key(digest, options, target.key), KIND)
    if data is None:
        return None
    try:
        return Image(data, target, store), digest
    except (LookupError, ValueError) as error:
        log.info("the stored plan of %s cannot be used any more (%s)", path, error)
        return None


def store_image(path: Path, options: Options, image: bytes) -> bool:
    """Keep an image for a model file; whether that worked."""
    store = Store.of(options.cache_dir)
    target = Target.of(options.isa)
    key = _key(digest_of(path, store), options, target.key)
    told = _target_key(options)
    if told is not None:
        store.put(told, json.dumps(asdict(target)).encode(), KIND)
    return store.put(key, image, KIND) and store.put(_size_key(path.stat().st_size), b"", KIND)


def digest_of(path: Path, store: Store) -> str:
    """The SHA-256 of a file's bytes, which the store remembers while the file does not change."""
    with path.open("rb") as file:
        told = os.fstat(file.fileno())
        return store.digest(told, lambda: hashlib.file_digest(file, "sha256"))


def _known_target(options: Options, store: Store) -> Target:
    """`Target.of(options.isa)`; what the store knows of this processor spares loading LLVM."""
    key = _target_key(options)
    told = None if key is None else store.get(key, KIND)
    if told is None:
        return Target.of(options.isa)
    return Target(**json.loads(told))


def _target_key(options: Options) -> str | None:
    identity = host_identity()
    if identity is None:
        return None
    how = repr((identity, options.isa, FORMAT, _sources()))
    return "host" + hashlib.sha256(how.encode()).hexdigest()


def _size_key(size: int) -> str:
    return f"size{size:x}"


def _key(digest: str, options: Options, target: str) -> str:
    workers = options.threads or default_threads()
    how = (workers, options.winograd, target, FORMAT, llvm_version())
    return hashlib.sha256(repr((digest, *how, _sources())).encode()).hexdigest()


@cache
def _sources() -> str:
    """A digest that changes with the package's own files: another compiler, another plan."""
    root = Path(__file__).resolve().parent.parent
    found = []
    pending = [str(root)]
    while pending:
        for entry in os.scandir(pending.pop()):
            if entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)
            elif entry.name.endswith(".py"):
                told = entry.stat()
                found.append((entry.path, told.st_size, told.st_mtime_ns))
    return hashlib.sha256(repr(sorted(found)).encode()).hexdigest()
