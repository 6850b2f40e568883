package workload

// nouns are common short English words, each one token (with the space before
// it) in nearly every vocabulary of 30,000 tokens or more. They are chosen so
// that no two of them make a phrase: some tokenizers have tokens of several
// words. Checked: in cl100k, o200k, Mistral's SentencePiece of 32,000 and Tekken
// each of them is one token, and so is each word of every pair of the first
// sixteen and of the second. The first are tried first, then the second, then any.
var nouns = [...]string{
	"time", "water", "house", "music", "paper", "river", "field", "stone", "horse", "color", "doctor", "market", "letter", "engine", "garden", "window",
	"world", "table", "light", "church", "metal", "north", "child", "story", "bridge", "square", "island", "dream", "model", "uncle", "coffee", "silver",
	"year", "glass", "force", "plant", "queen", "radio", "train", "wheel", "cloud", "beach", "tower", "actor", "brain", "chain", "novel",
	"people", "way", "day", "man", "life", "hand", "part", "eye", "woman", "place", "work", "week", "case", "point", "company", "number",
	"group", "fact", "right", "study", "book", "word", "business", "side", "kind", "head", "state", "power", "hour", "game", "line", "end",
	"member", "law", "car", "city", "name", "team", "minute", "idea", "body", "back", "parent", "face", "level", "office", "door", "health",
	"person", "art", "war", "history", "party", "result", "change", "morning", "reason", "research", "girl", "guy", "moment", "air", "teacher", "education",
	"foot", "boy", "age", "policy", "process", "sense", "nation", "plan", "college", "interest", "death", "experience", "effect", "use", "class", "control",
	"care", "role", "effort", "rate", "heart", "drug", "show", "leader", "voice", "wife", "police", "mind", "price", "report", "decision", "son",
	"view", "town", "road", "arm", "difference", "value", "building", "action", "season", "society", "tax", "director", "position", "player", "record",
	"space", "ground", "form", "event", "matter", "center", "couple", "site", "project", "activity", "star", "need", "court", "oil", "situation", "cost",
	"industry", "figure", "street", "image", "phone", "data", "picture", "practice", "piece", "land", "product", "wall", "patient", "worker", "news",
	"test", "movie", "love", "support", "step", "baby", "computer", "type", "attention", "film", "tree", "source", "truth", "hair", "crime", "choice",
}

// letters are the units of last resort: one token each, with no space between
// them, where a token is a byte or a character; and, with a space before each,
// in most small vocabularies.
var letters = [...]string{"b", "c", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "q", "r", "t", "v"}
