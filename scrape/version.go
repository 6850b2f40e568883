package scrape

import (
	"slices"
	"strconv"
	"strings"
)

// parseVersion reads the leading numbers of a release: 0.11.1.dev5+gabc is
// 0.11.1, v0.9.2rc1 is 0.9.2, b6123 is 6123. ok is false if it begins with none.
func parseVersion(s string) (numbers []int, ok bool) {
	s = strings.TrimLeft(strings.TrimSpace(s), "vb")
	for part := range strings.SplitSeq(s, ".") {
		end := strings.IndexFunc(part, func(r rune) bool { return r < '0' || r > '9' })
		if end < 0 {
			end = len(part)
		}
		n, err := strconv.Atoi(part[:end])
		if err != nil {
			break
		}
		numbers = append(numbers, n)
		if end < len(part) {
			break
		}
	}
	return numbers, len(numbers) > 0
}

// compareVersions orders releases; missing numbers are 0.
func compareVersions(a, b []int) int {
	n := max(len(a), len(b))
	pad := func(v []int) []int { return append(slices.Clone(v), make([]int, n-len(v))...) }
	return slices.Compare(pad(a), pad(b))
}

// covers reports whether a release has the entry.
func (e Entry) covers(release []int) bool {
	if since, ok := parseVersion(e.Since); ok && compareVersions(release, since) < 0 {
		return false
	}
	until, ok := parseVersion(e.Until)
	return !ok || compareVersions(release, until) < 0
}

// isNews reports whether a release is newer than what the catalogue has seen:
// 0.34 is, where 0.33 was, and 0.33.1 is not.
func (e Engine) isNews(release []int) bool {
	checked, ok := parseVersion(e.Checked)
	return !ok || compareVersions(release[:min(len(release), len(checked))], checked) > 0
}
