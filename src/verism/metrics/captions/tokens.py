"""Words of captions, as the COCO caption toolkit sees them, without Java.

The toolkit hands captions to the PTBTokenizer of Stanford CoreNLP 3.4.1 with ``-preserveLines -lowerCase`` and removes
punctuation from the answer. ``ptb_words`` does the same with one regular expression, written from what that program
answers to several thousand sentences of ours. How often the two differ, and where, is measured by
``benchmarks/captions.py tokens`` and told in ``docs/caption-metrics.md``.

Three habits of the original are kept, as the scores depend on them: brackets stay as words, because they come out as
``-lrb-`` while the list of removed words has ``-LRB-``; runs such as ``!!`` and ``?!`` stay, because the list has only
single marks; and a few tokens hold a no-break space (``1 1/2``, telephone numbers, HTML tags).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Literal, get_args

__all__ = ["REMOVED_WORDS", "TOKENIZERS", "TokenizerName", "get_tokenizer", "ptb_words"]

TokenizerName = Literal["ptb", "none"]
TOKENIZERS: tuple[TokenizerName, ...] = get_args(TokenizerName)

# What the toolkit drops after tokenising (pycocoevalcap 1.2, PUNCTUATIONS). The upper-case brackets never occur.
REMOVED_WORDS = frozenset(
    ["''", "'", "``", "`", "-LRB-", "-RRB-", "-LCB-", "-RCB-", ".", "?", "!", ",", ":", "-", "--", "...", ";"]
)

_NO_BREAK_SPACE = "\u00a0"

# Abbreviations whose full stop belongs to the word wherever they stand.
_ABBREVIATIONS = """
jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thurs fri
calif conn fla mich va ariz tenn mo md wis minn ind okla kan ga colo ky ala nev neb vt wyo
mr mrs ms messrs dr drs prof profs sen sens rep reps atty attys lt lieut col gen gov govs adm rev maj sgt cpl pvt
capt brig comdr cmdr pfc spc supt supts det pres hon mt st ste ave mme mlle jr sr esq bros blvd rd sq bldg
inc co cos corp ltd plc bancorp bhd assn assoc univ intl natl sys dept mfg pty ptys ct treas msgr
al etc seq vs cf est ext tel elec ft ph
"""
# States of the USA that are also words: only with a capital.
_ABBREVIATIONS_WITH_CAPITAL = "mass ill pa wash ore del la ark miss tex az"

# These only before a number, which the pattern below sees to.
_ABBREVIATIONS_BEFORE_NUMBERS = "ca no nos pp prop art fig figs op"

_KEPT_IN_LOWER_CASE = frozenset(f"{_ABBREVIATIONS} {_ABBREVIATIONS_BEFORE_NUMBERS}".split())
_KEPT_WITH_CAPITAL = frozenset(_ABBREVIATIONS_WITH_CAPITAL.split())

_DIVIDED = {
    "cannot": ("can", "not"),
    "gonna": ("gon", "na"),
    "gotta": ("got", "ta"),
    "wanna": ("wan", "na"),
    "gimme": ("gim", "me"),
    "lemme": ("lem", "me"),
}

_CLITICS = frozenset(["'s", "'m", "'d", "'re", "'ve", "'ll", "n't"])

_REWRITTEN: dict[str, tuple[str, ...]] = {
    "&amp;": ("&",),
    "&lt;": ("<",),
    "&gt;": (">",),
    "¢": ("cents",),
    "£": ("#",),
    "€": ("$",),
    "¤": ("$",),
    "\u20a0": ("$",),
    "¼": ("1/4",),
    "½": ("1/2",),
    "¾": ("3/4",),
    "⅓": ("1/3",),
    "⅔": ("2/3",),
    "(": ("-lrb-",),
    ")": ("-rrb-",),
    "[": ("-lsb-",),
    "]": ("-rsb-",),
    "{": ("-lcb-",),
    "}": ("-rcb-",),
    **dict.fromkeys(["&quot;", *"\"'`‘’‛“”«»‹›.,:;?!-\u2010\u2011–—―…"], ()),
}

# Symbols the original knows. Others, such as emoji, vanish.
_KNOWN_SYMBOL = re.compile(
    "[!-\u03f6\u055a-\u058a\u05be-\u060c\u061b\u061e-\u066a\u066d-\u07f8\u0964-\u0965\u0e3f-\u0e4f\u1fbd\u2013-\u2023"
    "\u2026\u2030-\u203b\u203e-\u2042\u2044\u2070-\u20a0\u20a4\u20ac\u2100-\u214f\u2153-\u215e\u2190-\u2bff\u3001\u3002"
    "\u3012\u30fb\uff01-\uffe1\uffe5\uffe6]"
)

# Letters outside ASCII: not the digits that Python also counts as word characters (², ½, Ⅷ, ①), nor what lies beyond
# the first 65,536 characters; but accents and vowel signs that stand apart.
_ANY_LETTER = (
    r"(?:[^\W\d_\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u209c\u2150-\u218b\u2460-\u24ff\u2776-\u2793"
    "\U00010000-\U0010ffff]"
    r"|[\u0300-\u036f\u0591-\u05bd\u064b-\u065f\u0900-\u0903\u093a-\u094f\u0e31\u0e34-\u0e3a\u0e47-\u0e4e])"
)

# One token, at a place where one begins. Alternatives stand in the order in which the original's longest match would
# choose them. <L> a letter, <W> a letter or digit, <A> an apostrophe, <H> what joins parts of a word.
_TOKEN = r"""
  [a-zA-Z]+(?=[ ,]|$)                                        # a plain word: most of them
| </?[a-zA-Z!?][^<>]*>                                       # <b>, </b>, <a href="">
| &(?:amp|lt|gt|quot|\#\d+);
| (?i:https?)://[^\s"<>|(){}]+[^\s"<>|(){}.,!?;:-]
| (?:www\.(?:[^\s"<>|().!?,]+\.)+[a-zA-Z]{2,4}|(?:[^\s"`'<>|().!?,/$-]+\.)+(?:com|net|org|edu))
  /[^\s"<>|()]+[^\s"<>|().!?,-]
| <W>[\w.+-]*@[^\s"<>|(){}.]+(?:\.[^\s"<>|(){}.]+)*          # e-mail, as the original draws its bounds
| \#<L>+ | @<L>[\w]*
| [<>]?[:;=][-o*']?[()DPdp\\@{|[\]](?!<L>) | [:;=]-?O(?!<L>) | [-^x=~<>']_[-^x=~<>'](?!<W>) | \^_\^
| (?:(?:\(\d{2,3}\)[ ]?|(?:\d{2,4}[ -])?\d{2,4}[ -])\d{3,4}[ -]?\d{3,5}(?!<W>))  # telephone
| \d+[ ]\d+/\d+(?!<W>)                                       # 1 1/2
| [cC]\+\+ | [cCfF]\#
| (?:US|A|C|S|NT|R|M|HK|NZ|CA|AU|X)\$                        # US$
| [A-Z]+(?:&(?:amp;)?[A-Z]+)+                                # AT&T
| <A>0s                                                      # '60s
| (?i:n<A>t)<L>* | <A>(?i:s|m|d|re|ve|ll)(?!<L>)          # clitics
| <A>t(?=(?i:is|was)(?!<L>)) | (?i:<A>(?:em|till?|cause|n)(?!<L>|<A>)|<A>n<A>)
| <A>\d0s(?!<W>) | <A>\d\d(?=\s|$)
| (?i:(?:ol|dunkin|somethin)<A>|(?:c<A>mo|cap<A>)n|(?:nat|li)<A>l)(?!<L>)
| (?i:s<A>mores|ma<A>am|(?:ne|[oe])<A>er|nor<A>easter)(?!<L>)
| [dDoOlL]<A><L><L>+(?:<H><W>+)* | [dDlLjJyY]<A>(?=<L>)      # o'clock; j' adore
| <L>*[aeiouyAEIOUY]<A>[aeiouAEIOU]<L>+ | <L>+[aeiouAEIOUY]<A>[iI](?!<L>)
| (?i:ca|nos?|pp|prop|art|figs?|op)\.(?=[ ]?\d)              # no. 5
| (?=<L>+\.[-\d])(?i:<ABBREVIATION>)\.(?:-<W>+)*              # jan.5, sept.-oct
| (?i:ph|ed)\.[dD]\.?
| <L>(?:\.<L>)+(?![.!?]?<L>|\d)(?:\.?(?:-<W>+)+|\.)?         # a.m., u.s.-based
| <L>\.(?!<W>)(?:-<W>+)* | <L>\.(?=\d)                       # J.
| <L><W>*(?:[.!?]<L><W>*)+(?:-<W>+)*                         # hello.world, the original's view of a missing space
| \d<W>*\.(?:jpe?g|gif|png|html?|txt|pdf|docx?|zip|mp3|exe|tar|gz|py|bmp|xml|ppt)(?!<W>)
| \d+(?:[.,]\d+)+(?:-<W>+)+
| \d+(?:[.,:]\d+)+
| (?!(?i:ca|nos?|pp|prop|art|figs?|op)\.)<L>+\.(?!<W>)       # end of a sentence, or an abbreviation
| <W>+(?:<H><W>+)*                                           # half-eaten, and/or, 3-4, 10am
| [-+]?(?:[.,:]\d+)+ | [-+]\d+(?:[.,:]\d+)*
| -+ | \.+ | [!?]+ | \*\*+ | \#+ | _+ | << | >> | ''? | ``?
| \S
"""


def _compile(letter: str) -> re.Pattern[str]:
    pattern = _TOKEN
    for name, meaning in {
        "<ABBREVIATION>": "|".join(_ABBREVIATIONS.split()),
        "<W>": r"(?:<L>|\d)",
        "<L>": letter,
        "<A>": "['’]",
        "<H>": r"[-/_\u2010\u2011]",
    }.items():
        pattern = pattern.replace(name, meaning)
    return re.compile(pattern, re.VERBOSE)


_ASCII_TOKEN = _compile("[a-zA-Z]")
_ANY_TOKEN = _compile(_ANY_LETTER)
_LAST_LETTER = re.compile(r"(?<!\w)(?<!\w\.)[^\W\d_]\.$")
_NEGATION = re.compile(r"(?<=[^\W\d_])(?=n['’]t)", re.IGNORECASE)


@lru_cache(maxsize=1 << 16)
def _words_of(token: str) -> tuple[str, ...]:
    """What becomes of one token: lower case, rewritten, divided, or nothing."""
    word = token.lower()
    if word in _REWRITTEN:
        return _REWRITTEN[word]
    if word in _DIVIDED:
        return _DIVIDED[word]
    if word in REMOVED_WORDS or (len(word) < 5 and not word.strip("-")) or not word.strip("."):
        return ()
    if len(token) == 1:
        known = (token.isalnum() and token <= "\uffff") or _KNOWN_SYMBOL.match(token)
        return (word,) if known else ()
    if word.endswith(".") and word.count(".") == 1 and len(word) > 2:
        return _abbreviation(token, word)
    if word.replace("’", "'") in _CLITICS:
        return (word.replace("’", "'"),)
    word = word.replace("&amp;", "&").replace(" ", _NO_BREAK_SPACE)
    if not word[0].isalnum() or word[-1] in "()":
        word = word.replace("(", "-lrb-").replace(")", "-rrb-")
    return (word,)


def _abbreviation(token: str, word: str) -> tuple[str, ...]:
    """A word with the full stop that follows it: one word if that is how it is abbreviated, else without the stop."""
    stem = word[:-1]
    kept = stem in _KEPT_IN_LOWER_CASE or (stem in _KEPT_WITH_CAPITAL and token[0].isupper())
    return (word,) if kept else _words_of(token[:-1])


def ptb_words(caption: str) -> list[str]:
    """The words of one caption: Penn Treebank tokens in lower case, without punctuation.

    Captions are read one by one; line breaks in them count as spaces. A full stop after a last word of one letter ends
    the sentence, as the original has it where the next caption begins with "A", "The" or another such word.

    >>> ptb_words("A man's half-eaten sandwich isn't on the table.")
    ['a', 'man', "'s", 'half-eaten', 'sandwich', 'is', "n't", 'on', 'the', 'table']
    """
    text = caption
    if not text.isascii():
        text = text.replace("\u00ad", "").replace(_NO_BREAK_SPACE, " ")
    if "'" in text or "’" in text or "&" in text:
        text = _NEGATION.sub(" ", text.replace("&apos;", "'").replace("&nbsp;", " "))
    text = " ".join(text.split())
    if _LAST_LETTER.search(text):  # "the letter T.": the end of a sentence, as before a caption that begins with "A"
        text = text[:-1]
    words = (_ASCII_TOKEN if text.isascii() else _ANY_TOKEN).findall(text)
    return [word for token in words for word in _words_of(token)]


def get_tokenizer(name: TokenizerName) -> Callable[[str], Sequence[str]]:
    """The tokeniser of that name: ``ptb``, or ``none`` for captions that are words with single spaces between already.

    Raises:
        ValueError: an unknown name.
    """
    if name == "ptb":
        return ptb_words
    if name == "none":
        return _split
    raise ValueError(f"tokenizer must be one of {list(TOKENIZERS)} or a function of a caption; got {name!r}")


def _split(caption: str) -> list[str]:
    return caption.split(" ")
