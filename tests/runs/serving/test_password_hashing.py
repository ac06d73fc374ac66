"""Passwords are hashed by few threads, whoever asks."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher, check_password, make_password

from runs.serving import password_hashing as hashing
from runs.serving.password_hashing import NUM_THREADS, Busy, Hasher


def test_a_hash_is_djangos_own_in_both_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Hasher, "iterations")  # the few of all other tests
    assert check_password("secret", make_password("secret")) and not check_password("other", make_password("secret"))
    made = PBKDF2PasswordHasher().encode("secret", "salt")
    assert Hasher().encode("secret", "salt") == made and check_password("secret", made)


def test_many_at_once_are_hashed_by_few_threads_that_let_others_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    running, most, priorities, lock = 0, 0, set(), threading.Lock()
    real = PBKDF2PasswordHasher.encode

    def encode(self: Any, *words: Any) -> str:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            if sys.platform == "linux":
                priorities.add(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        try:
            return real(self, *words)
        finally:
            with lock:
                running -= 1

    monkeypatch.setattr(PBKDF2PasswordHasher, "encode", encode)
    with ThreadPoolExecutor(12) as callers:
        list(callers.map(lambda _: Hasher().encode("secret", "salt", 20_000), range(24)))
    assert most <= NUM_THREADS
    ours = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    assert all(one > ours for one in priorities) or ours >= hashing.NICENESS


def test_who_would_wait_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "_places", threading.BoundedSemaphore(1))
    with hashing._places, pytest.raises(Busy):
        Hasher().encode("secret", "salt", 1)
    assert Hasher().encode("secret", "salt", 1)
