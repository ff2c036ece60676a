"""The only reader and writer of run directories.

::

    RUN/
      manifest.json        what was asked, with which versions; written first, with a hash of its own content
      prompts.parquet
      images/              images the run made, named by id and hash; user images stay where they are
      shards/*.tar         the same where the run keeps them in shards (``images_as``), many in one file
      images/part-*.parquet
      reference/part-*.parquet   the real images compared with, if any; they stay where they are
      observations/<table>/<judge>/part-*.parquet
      ledger/*.json        which files belong to the tables, with the hash of each
      scoring.json         which scoring counts
      scorings/<id>/       one scoring: verdicts, scores, adjustments, and what the suite says of itself
      scores.json          a copy of the scores that count, for scripts
      repair.json          what is left to do of a repair; gone at its end

Tables that grow are written in parts under names that are never used twice, each whole or not at all, so a killed run
loses at most the batch in flight, and several workers may write side by side. Readers check every file against its
hash and put parts together by id: the order of writing never matters, an image that two workers did counts once, and
only observations of that very image count.
"""

from verism.manifest import SCHEMA_VERSION, STORAGES, RunSettings, Scoring
from verism.store.ids import IdSet
from verism.store.images import Compaction, compact_images, write_shards
from verism.store.run import (
    MANIFEST,
    PROMPTS,
    TRUTH,
    Run,
    SettingsChanged,
    is_run,
    key_of,
    score_records,
    slug,
    sorted_verdicts,
)
from verism.store.scorings import StoredScoring, check_scoring_name
from verism.store.verification import REPAIR, Finding, Repair, Verification, begin_repair, discard, verify

__all__ = [
    "MANIFEST",
    "PROMPTS",
    "REPAIR",
    "SCHEMA_VERSION",
    "STORAGES",
    "TRUTH",
    "Compaction",
    "Finding",
    "IdSet",
    "Repair",
    "Run",
    "RunSettings",
    "Scoring",
    "SettingsChanged",
    "StoredScoring",
    "Verification",
    "begin_repair",
    "check_scoring_name",
    "compact_images",
    "discard",
    "is_run",
    "key_of",
    "score_records",
    "slug",
    "sorted_verdicts",
    "verify",
    "write_shards",
]
