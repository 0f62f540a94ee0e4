"""Counts what a run uses after a collection removed it."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from jaato_gc import FunctionCall, Message
from jaato_gc_lab._measures.edits import lines_in, quoted_lines, quoted_texts
from jaato_gc_lab._measures.names import Place, names_in, places_in
from jaato_gc_lab._measures.texts import shown_texts, texts_in, written_texts
from jaato_gc_lab._reports import BlindEdit, Loss


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the calls of a run use, which is all that has to be looked for.

    Args:
        names: The names in the arguments of all calls.
        lines: The lines that all edits quote.
    """

    names: frozenset[str]
    lines: frozenset[str]

    @classmethod
    def of(cls, messages: Iterable[Message]) -> "Wanted":
        """Returns what the calls in messages use."""
        names: set[str] = set()
        lines: set[str] = set()
        for message in messages:
            for call in message.function_calls:
                names |= names_in_call(call)
                for quoted in quoted_in_call(call):
                    lines |= quoted
        return cls(frozenset(names), frozenset(lines))


def names_in_call(call: FunctionCall) -> set[str]:
    """Returns the names in the arguments of a call."""
    return set().union(*map(names_in, texts_in(call.args)))


def quoted_in_call(call: FunctionCall) -> Iterator[frozenset[str]]:
    """Yields the lines of each text that a call quotes from a file in order to change it."""
    for text in quoted_texts(call.args):
        if lines := quoted_lines(text):
            yield lines


@dataclass(slots=True)
class _Shown:
    """What one message shows."""

    names: frozenset[str]
    places: frozenset[Place]
    lines: frozenset[str]

    @classmethod
    def by(cls, message: Message, wanted: Wanted) -> "_Shown":
        texts = list(shown_texts(message))
        return cls(
            frozenset().union(*map(names_in, texts)),
            frozenset(place for text in texts for place in places_in(text, wanted.names)),
            frozenset().union(*map(lines_in, texts)) & wanted.lines
            if wanted.lines
            else frozenset(),
        )


class Losses:
    """Tracks what a context shows, and counts what the run uses after its removal.

    **Lost names.** A name is shown by any message, including the stubs, notices and summaries of a
    collection. It is lost if a collection removes the last message that shows it, and the model
    then uses it in text or in a call before another message shows it. Weakness: a bag of words
    would keep all names and no content.

    **Lost context.** A name that a call uses is kept only where it is next to the same
    characters as somewhere in the recording: a name in a summary or a list of names does not
    count. Weakness: neighbours on the same line say little about the meaning.

    **Blind edits.** An edit quotes text that the recording showed before, line by line, and at
    least one of these lines is not in the context any more. Weakness: an agent could read the file
    again first; the recording did not have to.

    What the model writes first is not a loss. Once something lost is used, the answer shows it
    again, so every loss counts once. The number of uses depends on the recording only and is the
    same for every strategy.

    Args:
        wanted: What the calls of the run use.
    """

    def __init__(self, wanted: Wanted) -> None:
        self.names_used = 0
        self.names_lost = 0
        self.losses: list[Loss] = []
        self.context_used = 0
        self.context_lost = 0
        self.edits = 0
        self.blind_edits: list[BlindEdit] = []
        self.is_over = False
        """Whether a request did not fit: then everything that is used later counts as lost."""
        self._wanted = wanted
        self._recorded_names: set[str] = set()
        self._recorded_places: dict[str, set[Place]] = {}
        self._recorded_lines: set[str] = set()
        self._names: Counter[str] = Counter()
        self._places: Counter[Place] = Counter()
        self._lines: Counter[str] = Counter()
        self._removed: dict[str, int] = {}
        self._shown: dict[str, _Shown] = {}

    def add_recorded(self, message: Message) -> None:
        """Adds a message of the recording."""
        shown = self.add(message)
        self._recorded_names |= shown.names
        self._recorded_lines |= shown.lines
        for place in shown.places:
            self._recorded_places.setdefault(place[0], set()).add(place)

    def add(self, message: Message) -> _Shown:
        """Adds a message that a collection produced, and returns what it shows."""
        shown = self._shown[message.message_id] = _Shown.by(message, self._wanted)
        self._names.update(shown.names)
        for name in shown.names & self._removed.keys():
            del self._removed[name]
        if message.synthetic is None:  # what a collection wrote is not the original
            self._places.update(shown.places)
            self._lines.update(shown.lines)
        return shown

    def remove(self, message: Message, collection: int) -> None:
        """Removes a message.

        Args:
            message: The message.
            collection: Position of the collection in the list of collections.
        """
        shown = self._shown.pop(message.message_id)
        self._names.subtract(shown.names)
        for name in shown.names:
            if not self._names[name]:
                self._removed[name] = collection
        if message.synthetic is None:
            self._places.subtract(shown.places)
            self._lines.subtract(shown.lines)

    def use(self, answer: Iterable[Message], request: int) -> None:
        """Records what an answer uses. Call it before the answer is added.

        Args:
            answer: Messages of the answer.
            request: Position of the answered request in the list of requests.
        """
        mentioned: set[str] = set()
        called: set[str] = set()
        for message in answer:
            mentioned = mentioned.union(*map(names_in, written_texts(message)))
            for call in message.function_calls:
                called |= names_in_call(call)
                self._edit(call, request)
        self._use_names(sorted(mentioned & self._recorded_names), request)
        known = called & self._recorded_places.keys()
        self.context_used += len(known)
        self.context_lost += sum(self.is_over or not self._stands(name) for name in known)

    def _use_names(self, used: list[str], request: int) -> None:
        self.names_used += len(used)
        if self.is_over:
            self.names_lost += len(used)
            return
        lost = [name for name in used if name in self._removed]
        self.names_lost += len(lost)
        self.losses += [Loss(name, request, self._removed[name]) for name in lost]

    def _stands(self, name: str) -> bool:
        return any(self._places[place] for place in self._recorded_places[name])

    def _edit(self, call: FunctionCall, request: int) -> None:
        for lines in quoted_in_call(call):
            if lines <= self._recorded_lines:
                self.edits += 1
                missing = [line for line in lines if not self._lines[line]]
                if self.is_over or missing:
                    self.blind_edits.append(BlindEdit(call.name, request, min(missing, default="")))
