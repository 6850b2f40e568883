package simserver

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// WordLetters is how many letters of a word share one token.
const WordLetters = 8

// VocabSize is the number of token ids: 0 to VocabSize-1, as in Llama 3.
const VocabSize = 128256

// Ids from firstSpecial on are control tokens without text of their own.
const (
	firstSpecial     = 128000
	tokenBegin       = 128000
	tokenHeaderStart = 128006
	tokenHeaderEnd   = 128007
	tokenEndOfTurn   = 128009
	tokenLineBreak   = 128010 // the template's blank line after a header
)

var specialText = map[int]string{
	tokenBegin:       "<|begin_of_text|>",
	tokenHeaderStart: "<|start_header_id|>",
	tokenHeaderEnd:   "<|end_header_id|>",
	tokenEndOfTurn:   "<|eot_id|>",
	tokenLineBreak:   "\n\n",
}

const (
	consonants = "bcdfghjklmnprstvwxyz"
	vowels     = "aeiou"
	syllables  = len(consonants) * len(vowels)
)

// appendWord appends the text of a token: a space and a word for an ordinary
// id, the marker of a control token.
func appendWord(dst []byte, id int) []byte {
	if id >= firstSpecial {
		if s, ok := specialText[id]; ok {
			return append(dst, s...)
		}
		return append(dst, "<|reserved|>"...)
	}
	dst = append(dst, ' ')
	switch {
	case id < syllables:
		return appendSyllable(dst, id)
	case id < syllables+syllables*syllables:
		id -= syllables
		return appendSyllable(appendSyllable(dst, id/syllables), id%syllables)
	}
	id -= syllables + syllables*syllables
	dst = appendSyllable(dst, id/(syllables*syllables))
	dst = appendSyllable(dst, id/syllables%syllables)
	return appendSyllable(dst, id%syllables)
}

func appendSyllable(dst []byte, s int) []byte {
	return append(dst, consonants[s/len(vowels)], vowels[s%len(vowels)])
}

// wordID is the inverse of appendWord for ordinary ids; ok is false for a piece
// that is not one of the vocabulary's words.
func wordID(piece string) (id int, ok bool) {
	if len(piece) == 0 || len(piece) > 6 || len(piece)%2 != 0 {
		return 0, false
	}
	for i := 0; i < len(piece); i += 2 {
		c := strings.IndexByte(consonants, piece[i])
		v := strings.IndexByte(vowels, piece[i+1])
		if c < 0 || v < 0 {
			return 0, false
		}
		id = id*syllables + c*len(vowels) + v
	}
	switch len(piece) {
	case 4:
		id += syllables
	case 6:
		id += syllables + syllables*syllables
	}
	return id, id < firstSpecial
}

// pieceID is the id of one piece of text: of the vocabulary's word, or by hash.
func pieceID(piece string) int {
	if id, ok := wordID(piece); ok {
		return id
	}
	h := uint64(14695981039346656037)
	for i := range len(piece) {
		h = (h ^ uint64(piece[i])) * 1099511628211
	}
	return int(mix(h) % firstSpecial)
}

// tokenize appends the token ids of text, by the rule in the package comment.
func tokenize(dst []int, text string) []int {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if unicode.IsSpace(r) {
			i += size
			continue
		}
		end := i + size
		switch {
		case unicode.IsLetter(r):
			end = runEnd(text, end, WordLetters-1, unicode.IsLetter)
		case unicode.IsDigit(r):
			end = runEnd(text, end, 2, unicode.IsDigit)
		}
		dst = append(dst, pieceID(text[i:end]))
		i = end
	}
	return dst
}

// runEnd extends a run that stands at i by at most limit more characters of a class.
func runEnd(text string, i, limit int, class func(rune) bool) int {
	for range limit {
		r, size := utf8.DecodeRuneInString(text[i:])
		if size == 0 || !class(r) {
			break
		}
		i += size
	}
	return i
}

// detokenize is the text of a list of ids, as POST /detokenize gives it.
func detokenize(ids []int) string {
	var b []byte
	for _, id := range ids {
		b = appendWord(b, id)
	}
	return string(b)
}

// message is one turn of a chat.
type message struct {
	role, content string
}

// chatTokens renders a chat by the template.
func chatTokens(messages []message, specialTokens, generationPrompt bool) []int {
	var ids []int
	if specialTokens {
		ids = append(ids, tokenBegin)
	}
	for _, m := range messages {
		ids = append(ids, tokenHeaderStart, pieceID(m.role), tokenHeaderEnd, tokenLineBreak)
		ids = append(tokenize(ids, m.content), tokenEndOfTurn)
	}
	if generationPrompt {
		ids = append(ids, tokenHeaderStart, pieceID("assistant"), tokenHeaderEnd, tokenLineBreak)
	}
	return ids
}

// blockHashes chains a hash over every full block of n tokens, so that equal
// hashes mean equal prefixes. The salt keeps tenants or runs apart.
func blockHashes(token func(i int) int, n, blockTokens int, salt string) []uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for i := range len(salt) {
		h = mix(h ^ uint64(salt[i]))
	}
	out := make([]uint64, 0, n/blockTokens)
	for i := range n / blockTokens * blockTokens {
		h = mix(h ^ uint64(token(i)))
		if (i+1)%blockTokens == 0 {
			out = append(out, h)
		}
	}
	return out
}

// mix is the finaliser of SplitMix64 (Steele, Lea and Flood 2014): a bijection
// that spreads every bit.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
