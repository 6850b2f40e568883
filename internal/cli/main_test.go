package cli

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes this binary the command assay as well: in scripts by its name,
// and where the command re-executes itself, by the first argument.
func TestMain(m *testing.M) {
	assay := func() { os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
	if len(os.Args) > 1 && (os.Args[1] == "sim" || os.Args[1] == "run") {
		assay()
	}
	if filepath.Base(os.Args[0]) != "assay" {
		// Most of these tests wait for another process, which mostly waits as well.
		flag.Parse()
		if err := flag.Set("test.parallel", "6"); err != nil {
			panic(err)
		}
	}
	testscript.Main(m, map[string]func(){"assay": assay})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			// No proxy of this machine may come between.
			e.Vars = append(e.Vars, "NO_COLOR=1", "HTTP_PROXY=", "HTTPS_PROXY=", "http_proxy=", "https_proxy=", "NO_PROXY=*")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   cmdExits,
			"oneline": cmdOneLine,
			"rundir":  cmdRunDir,
			"json":    cmdJSON,
			"waitfor": cmdWaitFor,
		},
	})
}

// cmdExits is "exits CODE PROGRAM ARGS...": like exec, with that exit code.
func cmdExits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// cmdOneLine is "oneline REGEXP": standard error is one line of an error, and
// perhaps one that says where help is; the first matches.
func cmdOneLine(ts *testscript.TestScript, _ bool, args []string) {
	text := ts.ReadFile("stderr")
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if n := len(lines); n == 2 && strings.HasPrefix(lines[1], "see: assay") {
		lines = lines[:1]
	}
	if len(lines) != 1 || !strings.HasPrefix(lines[0], "assay: ") {
		ts.Fatalf("standard error is not one line of complaint:\n%s", text)
	}
	if !regexp.MustCompile(args[0]).MatchString(lines[0]) {
		ts.Fatalf("%q does not match %q", lines[0], args[0])
	}
	if ts.ReadFile("stdout") != "" {
		ts.Fatalf("something was printed to standard output")
	}
}

// cmdRunDir is "rundir VAR PARENT": the one run directory below PARENT, into VAR.
func cmdRunDir(ts *testscript.TestScript, _ bool, args []string) {
	dirs, err := filepath.Glob(ts.MkAbs(args[1]) + "/*")
	ts.Check(err)
	if len(dirs) != 1 {
		ts.Fatalf("%d run directories in %s, want 1", len(dirs), args[1])
	}
	ts.Setenv(args[0], filepath.Join(args[1], filepath.Base(dirs[0])))
}

// cmdJSON is "json FILE PATH VALUE": the value at a dotted path, as text; or any
// that is not null if VALUE is "*".
func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	var v any
	if err := json.Unmarshal([]byte(ts.ReadFile(args[0])), &v); err != nil {
		ts.Fatalf("%s is no JSON: %v", args[0], err)
	}
	for key := range strings.SplitSeq(args[1], ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(x) {
				ts.Fatalf("%s: no %q in a list of %d", args[1], key, len(x))
			}
			v = x[i]
		default:
			v = nil
		}
	}
	equal := fmt.Sprint(v) == args[2] || args[2] == "*" && v != nil
	if equal == neg {
		ts.Fatalf("%s is %v", args[1], v)
	}
}

// cmdWaitFor is "waitfor GLOB REGEXP": until a file's content matches. Something
// else is running that writes it.
func cmdWaitFor(ts *testscript.TestScript, _ bool, args []string) {
	want := regexp.MustCompile(args[1])
	if !until(func() bool {
		files, _ := filepath.Glob(ts.MkAbs(args[0]))
		if len(files) == 0 {
			return false
		}
		b, err := os.ReadFile(files[0])
		return err == nil && want.Match(b)
	}) {
		ts.Fatalf("%s never matched %q", args[0], args[1])
	}
}
