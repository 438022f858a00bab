"""What a child process may take: set in it, and named when it is met."""

from __future__ import annotations

import resource
import subprocess
import sys

import psutil

from costhub.isolation.limits import FOR_STRANGERS, Limits

SET = """
import resource, sys
from costhub.isolation.limits import Limits
limits = Limits(**{arguments})
limits.apply()
limits.begin_call()
print([resource.getrlimit(getattr(resource, "RLIMIT_" + name))[0] for name in sys.argv[1:]])
"""


def limits_of_a_child(arguments: dict[str, object], *names: str) -> list[int]:
    code = SET.format(arguments=arguments)
    done = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True, check=True)
    return list(map(int, done.stdout.strip("[] \n").split(", ")))


def test_limits_are_set_and_no_core_is_left() -> None:
    arguments = {"address_space_bytes": 1 << 33, "open_files": 50, "file_bytes": 1 << 20}
    assert limits_of_a_child(arguments, "AS", "NOFILE", "FSIZE", "CORE") == [1 << 33, 50, 1 << 20, 0]


def test_none_leaves_a_limit_as_it_is() -> None:
    before = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_CPU)]
    assert limits_of_a_child({}, "AS", "CPU") == before


def test_processor_time_is_granted_from_now_on() -> None:
    (soft,) = limits_of_a_child({"cpu_s": 7}, "CPU")
    assert 7 <= soft <= 20  # whole seconds, on top of what starting Python took


def test_further_memory_is_granted_from_now_on() -> None:
    (soft,) = limits_of_a_child({"further_bytes": 1 << 33}, "AS")
    assert 1 << 33 < soft < 3 << 32


def test_further_threads_are_granted_from_now_on() -> None:
    (soft,) = limits_of_a_child({"further_threads": 300}, "NPROC")
    assert 300 < soft < 300 + 100_000


def test_a_network_may_take_all_cores_and_half_of_the_memory() -> None:
    limits = Limits.for_network(timeout_s=60)
    memory = psutil.virtual_memory().total

    assert limits.cpu_s == 60 * (psutil.cpu_count() or 1)
    assert memory // 2 < (limits.further_bytes or 0) < memory // 2 + (9 << 30)


def test_a_limit_that_was_met_is_named() -> None:
    limits = Limits(address_space_bytes=3 << 30, cpu_s=5, file_bytes=1 << 20)
    assert limits.broken("SIGABRT", "LLVM ERROR: out of memory") == "It ran into its memory limit of 3 GiB."
    assert limits.broken(None, "MemoryError: std::bad_alloc") == "It ran into its memory limit of 3 GiB."
    assert "5 s of processor time" in (limits.broken("SIGXCPU", "") or "")
    assert "1 MiB to one file" in (limits.broken("SIGXFSZ", "") or "")
    assert limits.broken("SIGSEGV", "something else") is None
    assert Limits().broken("SIGABRT", "out of memory") is None


def test_a_share_leaves_room_for_what_tvm_maps_and_shrinks_with_the_number() -> None:
    one, many = (Limits.share(n, cpu_s=1).address_space_bytes or 0 for n in (1, 8))
    assert one > many > 4 << 30


def test_children_of_a_pool_share_the_memory() -> None:
    total = psutil.virtual_memory().total
    assert FOR_STRANGERS.among(1000).further_bytes == total // 1000
    assert FOR_STRANGERS.among(1).further_bytes == min(FOR_STRANGERS.further_bytes or 0, total)
    assert Limits(cpu_s=1).among(1000) == Limits(cpu_s=1)
