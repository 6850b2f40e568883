package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/assay-bench/assay/result"
)

// sweepFile is what makes a directory of runs a sweep.
const sweepFile = "sweep.json"

// Kinds of sweeps.
const (
	SweepKind    = "sweep"
	CapacityKind = "capacity"
	ABKind       = "ab"
)

// SweepMeta is the content of sweep.json: the plan, and how far it came. With the
// run directories beside it, it is all that is needed to go on, and to make the
// report again.
type SweepMeta struct {
	SchemaVersion int    `json:"schema_version"`
	Kind          string `json:"kind"`
	ID            string `json:"id"`
	ToolVersion   string `json:"tool_version"`
	// Complete is true when nothing is left to run. Ended says why not.
	Complete bool      `json:"complete"`
	Ended    string    `json:"ended,omitempty"`
	Began    time.Time `json:"began"`
	// Config that the stages share, with secrets redacted. Redacted says that the
	// URL had some.
	Config   json.RawMessage `json:"config"`
	Redacted bool            `json:"url_redacted,omitempty"`
	// Virtual: the runs are in virtual time. Engine holds the flags of the built-in
	// engine.
	Virtual bool     `json:"virtual,omitempty"`
	Engine  []string `json:"engine_flags,omitempty"`

	Target  result.Target           `json:"target"`
	Check   *result.InstrumentCheck `json:"check,omitempty"`
	Seed    uint64                  `json:"seed"`
	Repeats int                     `json:"repeats"`
	Quick   bool                    `json:"quick,omitempty"`
	NoStop  bool                    `json:"no_stop,omitempty"`
	NoCheck bool                    `json:"no_check,omitempty"`
	NoReset bool                    `json:"no_reset,omitempty"`
	// SettleMax bounds the wait between two runs.
	SettleMax time.Duration      `json:"settle_max_ns,omitzero"`
	Axes      []result.SweepAxis `json:"axes,omitempty"`
	Cells     []SweepCell        `json:"cells,omitempty"`
	Stops     []result.SweepStop `json:"stops,omitempty"`

	// Capacity is the search of a capacity, and its probes in order.
	Capacity *CapacityPlan `json:"capacity,omitempty"`
	Probes   []SweepProbe  `json:"probes,omitempty"`

	Warnings []result.Warning `json:"warnings,omitempty"`
}

// SweepCell is one run of one stage, in the order in which they are run.
type SweepCell struct {
	// Index of the stage in the grid of the axes, and its name.
	Index  int    `json:"stage_index"`
	Stage  string `json:"stage"`
	Repeat int    `json:"repeat"`
	Seed   uint64 `json:"seed"`
	// State is one of the states of package result. Run names the directory.
	State string `json:"state"`
	Run   string `json:"run,omitempty"`
	Error string `json:"error,omitempty"`
}

// CapacityPlan is what a search for a capacity needs to go on.
type CapacityPlan struct {
	// Over is "rate" or "concurrency".
	Over      string        `json:"over"`
	Start     float64       `json:"start"`
	Least     float64       `json:"least"`
	Most      float64       `json:"most"`
	Precision float64       `json:"precision"`
	Window    time.Duration `json:"window_ns"`
	WindowMax time.Duration `json:"window_max_ns"`
	Seeds     int           `json:"seeds"`
	SeedsMax  int           `json:"seeds_max"`
}

// SweepProbe is one run of a search that is over.
type SweepProbe struct {
	Load     float64       `json:"load"`
	Seed     int           `json:"seed_index"`
	Window   time.Duration `json:"window_ns"`
	Deciding bool          `json:"deciding"`
	Run      string        `json:"run,omitempty"`
	Error    string        `json:"error,omitempty"`
}

// Sweep is the directory of a sweep: runs, and sweep.json.
type Sweep struct {
	Dir  string
	Meta SweepMeta

	locked *os.File // holds the lock; nil where it was only read
}

// CreateSweep makes parent/<UTC time of its begin>-<short id> with sweep.json, locked
// as by [ResumeSweep].
func CreateSweep(parent, shortID string, m SweepMeta) (*Sweep, error) {
	m.ID = m.Began.UTC().Format("20060102T150405Z") + "-" + shortID
	m.SchemaVersion = result.SchemaVersion
	s := &Sweep{Dir: filepath.Join(parent, m.ID), Meta: m}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, fmt.Errorf("making the output folder: %w", err)
	}
	if err := os.Mkdir(s.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the directory of the sweep: %w", err)
	}
	var err error
	if s.locked, err = lock(s.Dir); err != nil {
		return nil, err
	}
	return s, s.Save()
}

// IsSweep reports whether a directory is that of a sweep.
func IsSweep(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, sweepFile))
	return err == nil
}

// OpenSweep reads sweep.json.
func OpenSweep(dir string) (*Sweep, error) {
	path := filepath.Join(dir, sweepFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not the directory of a sweep: it has no %s", dir, sweepFile)
	}
	if err != nil {
		return nil, fmt.Errorf("reading a sweep: %w", err)
	}
	s := &Sweep{Dir: dir}
	if err := json.Unmarshal(b, &s.Meta); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if v := s.Meta.SchemaVersion; v > result.SchemaVersion {
		return nil, fmt.Errorf("%s has schema version %d, this version knows %d", path, v, result.SchemaVersion)
	}
	return s, nil
}

// ResumeSweep is [OpenSweep] for a process that goes on with the sweep. It is refused
// while another one does: both would run the same stages, each would write over what
// the other knows, and two loads at one server are not what either is said to be.
func ResumeSweep(dir string) (*Sweep, error) {
	if !IsSweep(dir) {
		return OpenSweep(dir)
	}
	held, err := lock(dir)
	if err != nil {
		return nil, err
	}
	s, err := OpenSweep(dir) // read after the other has written its last
	if err != nil {
		_ = held.Close()
		return nil, err
	}
	s.locked = held
	return s, nil
}

// Close lets another process go on with the sweep. It does not save it.
func (s *Sweep) Close() error {
	if s.locked == nil {
		return nil
	}
	return s.locked.Close()
}

// Save replaces sweep.json, whole or not at all.
func (s *Sweep) Save() error { return WriteJSON(filepath.Join(s.Dir, sweepFile), s.Meta) }

// Runs are the names of the run directories in it.
func (s *Sweep) Runs() ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(s.Dir, "*", metaFile))
	names := make([]string, len(paths))
	for i, p := range paths {
		names[i] = filepath.Base(filepath.Dir(p))
	}
	return names, err
}
