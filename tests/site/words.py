"""The vocabulary from which titles, names and prose are drawn. Order matters: draws are by seed."""

from __future__ import annotations

SHOP = "The Tidewater Bookshop"

CATEGORIES = (
    "Poetry",
    "Crime & Mystery",
    "Natural History",
    "Travel",
    "Science Fiction",
    "Cookery",
    "Biography",
    "Children's Books",
    "Maps & Atlases",
    "Philosophy",
)

ADJECTIVES = (
    "Amber",
    "Borrowed",
    "Cartographer's",
    "Distant",
    "Eleventh",
    "Forgotten",
    "Gilded",
    "Hollow",
    "Impatient",
    "Juniper",
    "Kindly",
    "Lantern-Lit",
    "Migrating",
    "Northern",
    "Obstinate",
    "Paper",
    "Quiet",
    "Restless",
    "Salted",
    "Tidal",
    "Unwritten",
    "Velvet",
    "Weathered",
    "Young",
)

NOUNS = (
    "Almanac",
    "Beekeeper",
    "Compass",
    "Daughter",
    "Estuary",
    "Ferryman",
    "Garden",
    "Harbour",
    "Island",
    "Journal",
    "Kestrel",
    "Lighthouse",
    "Meadow",
    "Nightingale",
    "Orchard",
    "Pilgrim",
    "Quarry",
    "River",
    "Shepherd",
    "Telescope",
    "Umbrella",
    "Voyage",
    "Winter",
    "Zephyr",
)

PLACES = (
    "Aberlour",
    "Bruges",
    "Connemara",
    "Dubrovnik",
    "Évora",
    "Fårö",
    "Galway",
    "Haworth",
    "Ithaca",
    "Jura",
    "Kraków",
    "Lisbon",
)

FIRST_NAMES = ("Ada", "Bram", "Chloë", "Dmitri", "Elsa", "Farid", "Greta", "Hamish")

LAST_NAMES = ("Ashdown", "Brontsema", "Castellanos", "Drummond", "O'Farrell")

TAGS = (
    "bestseller",
    "first edition",
    "illustrated",
    "hardback",
    "in translation",
    "large print",
    "prize winner",
    "signed",
    "small press",
    "staff pick",
)

OPENINGS = (
    "Set over a single summer,",
    "In prose as clear as spring water,",
    "Beginning with a letter that was never posted,",
    "With a dry wit and a good ear,",
    "Across four generations of one family,",
    "From a narrow boat on a slow canal,",
)

MIDDLES = (
    "the book follows a search that nobody quite remembers starting",
    "we learn how a small town keeps its largest secret",
    "the author returns to the country of an earlier, happier work",
    "two strangers agree to share a map and very little else",
    "an old trade is described by the last people who practise it",
    "a quiet life is turned over, page by page, like good soil",
)

ENDINGS = (
    "and the last chapter is worth the wait.",
    "until the weather, as ever, decides.",
    "which is to say that it is about love.",
    "with more jokes than you would expect.",
    "and it will make you want to travel by train.",
    "though the dog, we promise, comes home.",
)
