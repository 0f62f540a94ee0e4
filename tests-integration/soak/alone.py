"""A session that one thread uses: every account is checked in full."""

import random
from collections.abc import Callable

from jaato_gc import GCSession, Role, UndoError
from soak.accounts import faults_of_account, faults_of_figures, faults_of_result
from soak.host import Host, forms
from soak.interrupts import interrupt_step
from soak.witness import Witness

BEGINNING = 100
"""The messages that a history begins with, at least."""


def begin(host: Host) -> None:
    """Appends a system message and some turns."""
    host.session.append(host.setup.talk.say(Role.SYSTEM, 20))
    while len(host.session.history) < BEGINNING:
        host.add_turn()


def alone(host: Host, steps: int) -> None:
    """Uses a session in one thread, and checks accounts and undo in full."""
    chance = host.setup.chance
    acts: list[Callable[[Host, random.Random], None]]
    acts = [collect_and_undo, collect_and_undo, collect, Host.step, Host.send_alone, interrupt_step]
    for _ in range(steps):
        if chance.random() < 0.5:
            host.add_turn()
        act = chance.choice(acts)
        act(host, chance)


def collect(host: Host, chance: random.Random) -> None:
    """Collects and checks the account."""
    session = host.session
    before, unbooked = session.history, session.budget.unbooked_tokens
    result = session.manual_gc(target_percent=chance.choice([0.0, 30.0, 50.0, 60.0]))
    faults = [*faults_of_account(before, session.history, result, unbooked)]
    faults += [*faults_of_figures(session), *host.witness.faults_of_content(session.history)]
    host.witness.find(*(f"{result}: {fault}" for fault in faults))


def collect_and_undo(host: Host, chance: random.Random) -> None:
    """Collects, goes on, and undoes the collection: everything is as if it had not been."""
    session = host.session
    before, count = session.history, session.collection_count
    session.manual_gc(target_percent=chance.choice([0.0, 30.0, 50.0]))
    result = session.get_gc_history()[-1] if session.collection_count > count else None
    if result is None or forms(session.history) == forms(before):
        return
    said = len(host.witness.messages)
    if chance.random() < 0.5:
        host.add_turn()
    expected = [*before, *host.witness.messages[said:]]
    pinned = set(session.budget.pinned_message_ids)
    failures = host.setup.stash.failures if host.setup.stash else 0
    try:
        session.undo(result.gc_id)
    except UndoError as error:
        if host.setup.stash is None or host.setup.stash.failures == failures:
            host.witness.find(f"the newest collection can't be undone: {error}")
        return
    if forms(session.history) != forms(expected):
        host.witness.find("undo did not restore what was there")
    if set(session.budget.pinned_message_ids) != pinned:
        host.witness.find("undo changed the pins")
    host.witness.find(*(f"after undo: {fault}" for fault in faults_of_figures(session)))


def rest(host: Host) -> None:
    """Checks a session that nothing uses any more, and undoes everything that happened to it."""
    session, witness = host.session, host.witness
    if host.setup.stash:
        host.setup.stash.fails = 0
    host.session.append(host.setup.talk.say(Role.USER, 20))
    host.send_alone(host.setup.chance)
    witness.find(*(f"at rest: {fault}" for fault in faults_of_figures(session)))
    witness.find(*(f"at rest: {fault}" for fault in witness.faults_of_content(session.history)))
    for result in session.get_gc_history():
        witness.find(*(f"{result}: {fault}" for fault in faults_of_result(result)))
    saved = session.save()
    restored = host.restored(saved, host.strategy, Witness())
    if restored.save() != saved or forms(restored.history) != forms(session.history):
        witness.find("a restored session is not what was saved")
    if not host.setup.forgets:
        for each in (session, restored):
            stopped_by = undo_everything(each)
            if forms(each.history) != forms(witness.messages):
                witness.find(f"undoing everything does not restore it: {stopped_by}")
            witness.find(*(f"all undone: {fault}" for fault in faults_of_figures(each)))


def undo_everything(session: GCSession) -> UndoError:
    """Undoes every collection, and returns the error that ends it."""
    while True:
        try:
            session.undo()
        except UndoError as error:
            return error
