"""The answer to what a person may do, but not now."""


class Refused(Exception):
    """The state does not allow it. ``code`` is for programs, ``sentence`` for people."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
