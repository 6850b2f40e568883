package house

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/assay-bench/assay"

// edges says whom each package may import, of this module. An edge that is not
// here is a change of the architecture: change this table, and say why.
func edges() map[string][]string {
	return map[string][]string{
		// floor 0
		"internal/clock": {},
		"internal/house": {},
		// floor 1
		"record":  {},
		"arrival": {},
		"stat":    {},
		"scrape":  {"internal/clock"},
		"environ": {},
		"dataset": {},
		// floor 2
		"wire":     {"record", "internal/clock"},
		"workload": {"arrival", "dataset", "record", "stat"}, // stat: what a workload looks like
		"engine":   {"stat"},
		"result":   {"record", "stat", "environ"}, // a run holds its environment log
		// floor 3
		"metric":     {"record", "result", "stat"},
		"load/sched": {"workload", "record"},
		"simserver":  {"engine", "record", "internal/clock"},
		"replay":     {"engine", "result", "stat"},           // a simulation beside the recording of a real server
		"compat":     {"metric", "record", "result", "stat"}, // on the floor of report: what other tools would print
		"rundir":     {"record", "result", "environ"},
		// The truth that wire is held against: it may share nothing with it but the clock.
		"internal/metronome": {"internal/clock"},
		"dialect":            {"record"},
		// floor 4
		"truth":        {"engine", "record", "result", "simserver", "stat"}, // our measurement beside the engine's log
		"experiment":   {"result", "record", "metric", "stat", "scrape", "rundir", "workload", "environ"},
		"sweep":        {"result", "stat"}, // the protocol of several runs is pure: whoever makes the runs passes in what they concluded
		"load/real":    {"load/sched", "workload", "dialect", "wire", "record", "result", "internal/clock"},
		"load/virtual": {"load/sched", "workload", "engine", "record", "internal/clock"},
		// floor 5
		"internal/calibrate": {"internal/metronome", "wire", "dialect", "record", "stat", "internal/clock"},
		"report/chart":       {},
		"report":             {"report/chart", "result", "metric", "stat", "rundir", "record", "scrape", "environ"},
		"compare":            {"result", "metric", "stat", "record"}, // record: samples of single requests
	}
}

// top may import anything: the command line wires everything.
var top = []string{"internal/cli", "cmd/assay"}

type pkg struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports", module+"/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 10 {
		t.Fatalf("go list found only %d packages", len(all))
	}
	return all
}

// TestImports holds the floors: a package imports only from below.
func TestImports(t *testing.T) {
	allowed := edges()
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		if slices.Contains(top, name) || strings.HasPrefix(name, "bench/") {
			continue
		}
		may, known := allowed[name]
		if !known {
			t.Errorf("package %s is not in the table of edges", name)
			continue
		}
		for _, imp := range p.Imports {
			to, ours := strings.CutPrefix(imp, module+"/")
			if ours && !slices.Contains(may, to) {
				t.Errorf("%s imports %s, which the table does not allow", name, to)
			}
		}
	}
}

// pure packages are handed the time; they start nothing.
var pure = []string{"record", "arrival", "stat", "engine", "metric", "result", "load/sched", "load/virtual", "experiment", "sweep"}

// TestClock lets only internal/clock read the time or sleep, and keeps
// goroutines out of the pure packages.
func TestClock(t *testing.T) {
	forbidden := []string{"Now", "Since", "Until", "Sleep", "After"}
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		if name == "internal/clock" || strings.HasPrefix(name, "bench/") {
			continue
		}
		for _, file := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					if slices.Contains(pure, name) {
						t.Errorf("%s/%s starts a goroutine", name, file)
					}
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(forbidden, n.Sel.Name) {
						t.Errorf("%s/%s calls time.%s: only internal/clock reads the time", name, file, n.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// TestPackageComments wants a doc comment on every package.
func TestPackageComments(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) == 0 {
			continue
		}
		found := false
		for _, file := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			found = found || f.Doc != nil
		}
		if !found {
			t.Errorf("package %s has no doc comment", p.ImportPath)
		}
	}
}
