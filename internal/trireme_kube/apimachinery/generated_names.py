"""Names that an API server generates: a prefix and random characters.

Source: k8s.io/apiserver/pkg/storage/names, k8s.io/apimachinery/pkg/util/rand.
"""

from typing import Final

#: Without vowels and digits that look like letters, so that no words result.
ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH: Final = 5
