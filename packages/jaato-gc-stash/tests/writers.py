"""Tasks that tests run in separate processes: ``python writers.py <task> <arguments>``."""

import contextlib
import os
import random
import resource
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable

from jaato_gc import Message, Part, Role, StashError, ToolResult
from jaato_gc_stash import SqlStash, _sqlite


def batch(name: str, size: int = 3) -> list[Message]:
    """Returns messages for one put, one of them large."""
    texts = [f"{name} number {number}" for number in range(size - 1)]
    texts.append(f"{name} large " + os.urandom(5_000).hex())
    return [Message.from_text(Role.USER, text, message_id=f"{name}-{text[:20]}") for text in texts]


def kill_writers(url: str, kills: str, seconds: str) -> None:
    """Kills one writer after another at random times. Prints the puts that they acknowledged."""
    deadline = time.monotonic() + float(seconds)
    done = 0
    for number in range(int(kills)):
        if time.monotonic() > deadline:
            break
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                _write_and_acknowledge(url, f"round {number}", writing)
            os._exit(1)
        os.close(writing)
        with os.fdopen(reading) as acknowledged:
            # Some are killed while they open the stash, most while they write.
            first = acknowledged.readline() if number % 5 == 0 or number % 2 else ""
            time.sleep(random.uniform(0.0, 0.03))
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            assert os.WIFSIGNALED(status), "the writer failed before it was killed"
            for line in (first, *acknowledged):
                if line.endswith("\n"):
                    print(line, end="")
        done += 1
    print("killed", done)


def _write_and_acknowledge(url: str, name: str, writing: int) -> None:
    with SqlStash(url) as stash:
        for number in range(1_000_000):
            gc_id = f"{name} batch {number}"
            keys = stash.put(gc_id, batch(gc_id))
            os.write(writing, f"{gc_id}:{','.join(keys)}\n".encode())


def write(url: str, agent: str, puts: str) -> None:
    """Puts and forgets while another process does the same. Prints the keys that remain."""
    shared = ToolResult("1", "bash", "the same output in both processes")
    with SqlStash(url, agent=agent) as stash:
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(int(puts)):
            mine = Message(Role.TOOL, [Part(function_response=shared)])
            # The same contents in a random order, deleted again at once, to provoke deadlocks.
            common = [Message.from_text(Role.USER, f"common {each}") for each in range(5)]
            random.shuffle(common)
            kept = stash.put(f"gc-{number}", [*batch(f"{os.getpid()} {number}"), mine])
            dropped = stash.put(f"gc-{number}", common)
            assert stash.forget(dropped) == 5
            print(*kept, sep="\n")


def open_and_put(url: str) -> None:
    """Opens a stash at the same time as other processes, and puts a message."""
    print("ready", flush=True)
    sys.stdin.readline()
    with SqlStash(url) as stash:
        print(*stash.put("gc-1", [Message.from_text(Role.USER, "hello")]))


def create_concurrently(folder: str, rounds: str) -> None:
    """Creates several stashes, each in six processes at the same time."""
    for number in range(int(rounds)):
        reading, writing = os.pipe()
        children = []
        for _ in range(6):
            child = os.fork()
            if child == 0:
                os.close(writing)
                os.read(reading, 1)  # until the parent closes its end
                try:
                    SqlStash(f"{folder}/{number}.db").close()
                except BaseException as error:
                    print(error, file=sys.stderr, flush=True)
                    os._exit(1)
                os._exit(0)
            children.append(child)
        os.close(reading)
        os.close(writing)
        for child in children:
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 0


def fill_disk(url: str) -> None:
    """Puts until a file size limit is reached, then raises it and puts again. Prints the error."""
    with SqlStash(url) as stash:
        kept = stash.put("gc-0", batch("before"))
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
        errors = []
        for number in range(100):
            messages = batch(f"batch {number}", 30)
            try:
                kept += stash.put(f"gc-{number}", messages)
            except StashError as error:
                errors.append(str(error))
                break
        assert stash.stats().entries == len(stash.restore(kept)) == len(kept)
        assert stash.search("before")
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        kept += stash.put("gc-after", messages)
        assert stash.stats().entries == len(stash.restore(kept)) == len(kept)
        assert stash.search("before")
    print(*errors, sep="\n")


def use_across_fork(url: str) -> None:
    """Uses a stash in the parent and in the child of a fork. Prints the number of entries."""
    with SqlStash(url) as stash:
        [first] = stash.put("gc-1", [Message.from_text(Role.USER, "before the fork")])
        connection = _connection(stash)
        child = os.fork()
        if child == 0:
            try:
                stash.put("gc-2", [Message.from_text(Role.USER, "in the child")])
                os._exit(0 if stash.get(first) and _connection(stash) is not connection else 2)
            except BaseException as error:
                print(error, file=sys.stderr, flush=True)
                os._exit(1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        stash.put("gc-3", [Message.from_text(Role.USER, "in the parent")])
        print(stash.stats().entries)


def fork_while_a_thread_writes(url: str) -> None:
    """Forks while another thread is in the middle of a put, and puts in the child."""
    _sqlite._LOCK_TIMEOUT = 0.5
    writing, forked = threading.Event(), threading.Event()

    def clock() -> float:  # a put calls it within its transaction
        writing.set()
        assert forked.wait(60)
        return time.time()

    with SqlStash(url, clock=clock) as stash:
        messages = [Message.from_text(Role.USER, "in a thread")]
        writer = threading.Thread(target=stash.put, args=("gc-1", messages))
        writer.start()
        assert writing.wait(60)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # for a fork with threads
            child = os.fork()
        forked.set()
        if child == 0:
            with contextlib.suppress(StashError):  # SQLite remembers the lock of the lost thread
                stash.put("gc-2", [Message.from_text(Role.USER, "in the child")])
            os._exit(0)
        writer.join()
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        stash.put("gc-3", [Message.from_text(Role.USER, "in the parent")])


def _connection(stash: SqlStash) -> object:
    """Returns the connection that the pool hands out next."""
    with contextlib.closing(stash._database.engine.raw_connection()) as connection:
        return connection.driver_connection


if __name__ == "__main__":
    tasks: list[Callable[..., None]] = [
        kill_writers, write, open_and_put, create_concurrently, fill_disk, use_across_fork,
        fork_while_a_thread_writes,
    ]  # fmt: skip
    {task.__name__: task for task in tasks}[sys.argv[1]](*sys.argv[2:])
