"""Interrupts, as by Ctrl-C: whatever a session was doing, it is as before or as after."""

import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import jaato_gc
from jaato_gc import GCError, Role
from soak.accounts import faults_of_figures
from soak.host import Host, Step
from soak.witness import Witness

PRODUCT = str(Path(jaato_gc.__file__).parent)
NEXT_TRY = 20e-6
"""The seconds until the next signal, if one came in code that is not the product's."""
PATIENCE = 20.0
"""The seconds that another thread gets. It needs milliseconds, unless a lock is held."""


def interrupt_step(host: Host, chance: random.Random) -> None:
    """Interrupts a step of the host, and checks the session."""
    if not hasattr(signal, "setitimer") or not _is_main_thread():
        return
    # Not those that tell the witness in several steps, such as pinning.
    steps: list[Step] = [host.collect, host.end_turn, host.refuse, host.undo, host.replace]
    steps += [host.restore_stashed, host.send_alone, host.save]
    step = chance.choice(steps)
    if not _interrupt(lambda: _run(host, step, chance), 10 ** chance.uniform(-5, -2)):
        return
    witness, session = host.witness, host.session
    witness.interrupts += 1
    if step == host.restore_stashed:
        witness.look_again(session.history)
    faults = [*_faults_of_locks(host), *faults_of_figures(session)]
    faults += witness.faults_of_content(session.history)
    try:
        saved = session.save()
        if host.restored(saved, host.strategy, Witness()).save() != saved:
            faults.append("a restored session is not what was saved")
    except Exception as error:
        faults.append(f"{type(error).__name__}: {error}")
    witness.find(*(f"{step.__name__} was interrupted: {fault}" for fault in faults))


def _run(host: Host, step: Step, chance: random.Random) -> None:
    try:
        step(chance)
    except GCError as error:
        if type(error) not in host.steps.get(step, ()):
            raise


def _interrupt(call: Callable[[], object], seconds: float) -> bool:
    """Runs a call, and raises KeyboardInterrupt in the product. Returns whether that ended it."""
    is_running = True

    def interrupt(_signal: int, frame: FrameType | None) -> None:
        nonlocal is_running
        if is_running and frame and frame.f_code.co_filename.startswith(PRODUCT):
            is_running = False
            raise KeyboardInterrupt
        if is_running:
            signal.setitimer(signal.ITIMER_REAL, NEXT_TRY)

    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        call()
    except KeyboardInterrupt:
        return True
    finally:
        is_running = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    return False


def _faults_of_locks(host: Host) -> list[str]:
    def use() -> None:
        host.session.append(host.setup.talk.say(Role.USER, 5))
        host.session.plan_gc()

    thread = threading.Thread(target=use, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return ["a lock is held"] if thread.is_alive() else []


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
