package metric_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/metric"
	"github.com/assay-bench/assay/record"
	"github.com/assay-bench/assay/result"
)

// TestScenarios runs the test vectors of testdata; testdata/README.md is their
// grammar.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.test")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { runScenario(t, file) })
	}
}

// scenarioEpoch moves every file's zero away from stamp 0, which means never.
const scenarioEpoch = 1e9

type loaded struct {
	attempt record.Attempt
	events  []record.Event
}

type scenario struct {
	window  record.Window
	options metric.Options
	order   []string
	loads   map[string]*loaded
	copies  map[string]int
	current *loaded
}

func (s *scenario) clear() {
	*s = scenario{loads: make(map[string]*loaded), copies: make(map[string]int)}
}

func runScenario(t *testing.T, file string) {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var s scenario
	s.clear()
	lines := bufio.NewScanner(f)
	expects := 0
	for number := 1; lines.Scan(); number++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		if fields[0] == "expect" {
			expects++
			if err := s.expect(fields[1:]); err != nil {
				t.Errorf("%s:%d: %s: %v", file, number, strings.TrimSpace(text), err)
			}
			continue
		}
		if err := s.statement(fields, text); err != nil {
			t.Fatalf("%s:%d: %s: %v", file, number, strings.TrimSpace(text), err)
		}
	}
	if expects == 0 {
		t.Errorf("%s expects nothing", file)
	}
}

func (s *scenario) statement(fields []string, text string) error {
	if text[0] == ' ' {
		return s.event(fields)
	}
	switch fields[0] {
	case "window":
		start, err1 := stampAt(fields[1])
		end, err2 := stampAt(fields[2])
		s.window = record.Window{Start: start, End: end}
		return firstError(err1, err2)
	case "option":
		return s.option(fields[1], fields[2])
	case "load":
		return s.load(fields[1], fields[2:])
	case "clear":
		s.clear()
		return nil
	}
	return fmt.Errorf("unknown statement %q", fields[0])
}

func (s *scenario) option(key, value string) (err error) {
	switch key {
	case "slo":
		s.options.SLO, err = metric.ParseSLO(value)
	case "tpot":
		s.options.TPOT = value
	case "quantile":
		s.options.QuantileType, err = strconv.Atoi(value)
	case "from-schedule":
		s.options.FromSchedule, err = strconv.ParseBool(value)
	case "planned":
		s.options.Planned, err = strconv.ParseBool(value)
	case "coalesced-limit":
		s.options.CoalescedLimit, err = strconv.ParseFloat(value, 64)
	default:
		err = fmt.Errorf("unknown option %q", key)
	}
	return firstError(err, s.options.Validate())
}

func (s *scenario) load(name string, keys []string) error {
	name, times, many := strings.Cut(name, "*")
	s.copies[name] = 1
	if many {
		n, err := strconv.Atoi(times)
		if err != nil {
			return err
		}
		s.copies[name] = n
	}
	l := &loaded{}
	a := &l.attempt
	a.ID, a.Request = name, int64(1000*(1+len(s.order)))
	a.Sent, a.Outcome, a.Streamed = scenarioEpoch, record.Completed, true
	for _, pair := range keys {
		key, value, _ := strings.Cut(pair, "=")
		if err := setKey(a, key, value); err != nil {
			return fmt.Errorf("%s: %w", pair, err)
		}
	}
	if !a.Scheduled.Known() {
		a.Scheduled = a.Sent
	}
	if !a.Streamed {
		a.EOF = a.Sent + a.EOF
		a.Ended, a.TextBytes = a.EOF, 1
	}
	s.order, s.loads[name], s.current = append(s.order, name), l, l
	return nil
}

func setKey(a *record.Attempt, key, value string) (err error) {
	usage := func(set func(u *record.Usage, n int)) error {
		n, err := strconv.Atoi(value)
		if a.Usage == nil {
			a.Usage = &record.Usage{}
		}
		set(a.Usage, n)
		return err
	}
	switch key {
	case "scheduled":
		a.Scheduled, err = stampAt(value)
	case "sent":
		if value == "never" {
			a.Sent = 0
			return nil
		}
		a.Sent, err = stampAt(value)
	case "ended":
		a.Ended, err = stampAt(value)
	case "eof":
		var ns float64
		ns, err = strconv.ParseFloat(value, 64)
		a.Streamed, a.EOF = false, record.Stamp(ns*1e6)
	case "n":
		return usage(func(u *record.Usage, n int) { u.CompletionTokens = n })
	case "prompt":
		return usage(func(u *record.Usage, n int) { u.PromptTokens = n })
	case "reasoning":
		return usage(func(u *record.Usage, n int) { u.ReasoningTokens = n })
	case "dispatched":
		a.Dispatched, err = stampAt(value)
	case "connect":
		a.Connect, err = time.ParseDuration(value + "ms")
	case "tls":
		a.TLS, err = time.ParseDuration(value + "ms")
	case "reused":
		a.ConnReused = true
	case "cached":
		return usage(func(u *record.Usage, n int) { u.CachedTokens = n })
	case "asked":
		a.PromptTokensAsked, err = strconv.Atoi(value)
	case "choices":
		a.Choices, err = strconv.Atoi(value)
	case "max":
		a.MaxTokens, err = strconv.Atoi(value)
	case "status":
		a.Status, err = strconv.Atoi(value)
	case "try":
		a.Try, err = strconv.Atoi(value)
	case "session":
		a.Session, err = strconv.ParseInt(value, 10, 64)
	case "turn":
		a.Turn, err = strconv.Atoi(value)
	case "turns":
		a.Turns, err = strconv.Atoi(value)
	case "request":
		a.Request, err = strconv.ParseInt(value, 10, 64)
	case "finish":
		a.FinishReason = value
	case "stop":
		a.StopReason = value
	case "error":
		a.Error = value
	case "body":
		a.ErrorBody = value
	case "outcome":
		a.Outcome = record.Outcome(value)
		if !slices.Contains(record.Outcomes(), a.Outcome) {
			err = fmt.Errorf("unknown outcome %q", value)
		}
	default:
		err = fmt.Errorf("unknown key %q", key)
	}
	return err
}

func (s *scenario) event(fields []string) error {
	first, repeat, _ := strings.Cut(fields[0], "+")
	at, err := strconv.ParseFloat(first, 64)
	step, times := 0., 0
	if repeat != "" {
		by, count, _ := strings.Cut(repeat, "x")
		var err1, err2 error
		step, err1 = strconv.ParseFloat(by, 64)
		times, err2 = strconv.Atoi(count)
		err = firstError(err, err1, err2)
	}
	if err != nil {
		return err
	}
	e := record.Event{Tokens: record.UnknownTokens}
	for _, word := range fields[1:] {
		if err := addWord(&e, word); err != nil {
			return err
		}
	}
	l := s.current
	for i := range times + 1 {
		e.At = l.attempt.Sent + record.Stamp(math.Round((at+float64(i)*step)*1e6))
		e.Read = e.At
		l.events = append(l.events, e)
		l.attempt.Observe(e)
	}
	return nil
}

func addWord(e *record.Event, word string) error {
	text := func(f record.EventFlags) {
		e.Flags |= f | record.FlagText
		e.TextBytes = 4
		if f == record.FlagAnswer {
			e.AnswerBytes = 4
		}
	}
	switch word {
	case "answer":
		text(record.FlagAnswer)
	case "think":
		text(record.FlagReasoning)
	case "refusal":
		text(record.FlagRefusal)
	case "tool":
		text(record.FlagToolCall)
	case "role":
		e.Flags |= record.FlagRole
	case "finish":
		e.Flags |= record.FlagFinish
	case "usage":
		e.Flags |= record.FlagUsage
	case "done":
		e.Flags |= record.FlagDone
	default:
		value, ok := strings.CutPrefix(word, "tokens=")
		n, err := strconv.Atoi(value)
		if !ok || err != nil {
			return fmt.Errorf("unknown word %q", word)
		}
		e.Tokens = int32(n)
	}
	return nil
}

func (s *scenario) expect(fields []string) error {
	if fields[0] == "stage" {
		return s.expectStage(fields[1], fields[2:])
	}
	l, ok := s.loads[fields[0]]
	if !ok {
		return fmt.Errorf("nothing loaded as %q", fields[0])
	}
	want := fields[2:]
	if fields[1] == "gaps" {
		return s.expectGaps(l, want)
	}
	if fields[1] == "one_token" {
		return same(metric.CheckOneToken(&l.attempt).String(), strings.Join(want, " "))
	}
	measure, ok := map[string]func(*record.Attempt) (float64, metric.Reason){
		"ttft": metric.TTFT, "ttft_from_schedule": metric.TTFTFromSchedule, "e2e": metric.E2E,
		"time_to_first_answer": metric.TimeToFirstAnswer, "tpot": metric.TPOT,
		"tpot_paired": metric.TPOTPaired, "user_tps": metric.UserTPS,
	}[fields[1]]
	if !ok {
		return fmt.Errorf("unknown metric %q", fields[1])
	}
	got, why := measure(&l.attempt)
	if want[0] == "undefined" {
		return same(why.String(), strings.Join(want[1:], " "))
	}
	if why != metric.Defined {
		return fmt.Errorf("undefined: %v", why)
	}
	return close12(got, want[0])
}

func (s *scenario) expectGaps(l *loaded, want []string) error {
	got := metric.Gaps(nil, l.events)
	if len(got) != len(want) {
		return fmt.Errorf("got gaps %v", got)
	}
	for i := range want {
		if err := close12(got[i], want[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *scenario) expectStage(path string, want []string) error {
	stage := metric.NewStage(s.window, s.options)
	for _, name := range s.order {
		l := s.loads[name]
		for i := range s.copies[name] {
			a := l.attempt
			a.Request += int64(i)
			a.Ended = max(a.Ended, a.Done, a.Finish, a.LastText)
			stage.Add(&a, l.events)
		}
	}
	var out result.Stage
	stage.Result(&out)
	data, err := json.Marshal(out)
	if err != nil {
		return err
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return err
	}
	for _, key := range strings.Split(path, ".") {
		if tree == nil {
			return fmt.Errorf("nothing at the parent of %q", key) // or a typo would pass for null
		}
		tree = child(tree, key)
	}
	text := strings.Join(want, " ")
	switch got := tree.(type) {
	case nil:
		return same("null", text)
	case float64:
		return close12(got, want[0])
	case bool:
		return same(strconv.FormatBool(got), text)
	case string:
		if part, ok := strings.CutPrefix(text, "~ "); ok && strings.Contains(got, part) {
			return nil
		}
		return same(got, text)
	}
	return fmt.Errorf("%s is no single value", path)
}

// child steps into an object by key, or into a list by index or name.
func child(tree any, key string) any {
	switch node := tree.(type) {
	case map[string]any:
		for k, v := range node {
			if k == key || strings.ReplaceAll(k, " ", "_") == key {
				return v
			}
		}
	case []any:
		for i, v := range node {
			object, _ := v.(map[string]any)
			if key == strconv.Itoa(i) || object["name"] == key {
				return v
			}
		}
	}
	return nil
}

func stampAt(ms string) (record.Stamp, error) {
	x, err := strconv.ParseFloat(ms, 64)
	return scenarioEpoch + record.Stamp(math.Round(x*1e6)), err
}

func same(got, want string) error {
	if got != want {
		return fmt.Errorf("got %q", got)
	}
	return nil
}

func close12(got float64, text string) error {
	want, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("got %v: %w", got, err)
	}
	if math.Abs(got-want) > 1e-12*math.Abs(want) {
		return fmt.Errorf("got %v", got)
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
