// Package cli is the command line: commands, configuration, wiring and exit
// codes. Nothing is computed here.
package cli

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"
)

// env is what a command may touch of the outside.
type env struct {
	stdin          io.Reader
	stdout, stderr io.Writer
}

// commands is the grammar. Flags that a configuration file can also set are
// pointers: nil means not given.
type commands struct {
	Run         runCmd         `cmd:"" help:"Measure one endpoint; without a URL, the built-in engine."`
	Sweep       sweepCmd       `cmd:"" help:"Measure over a list of loads or lengths, several times each."`
	Capacity    capacityCmd    `cmd:"" help:"Search for the highest load that meets an SLO."`
	Report      reportCmd      `cmd:"" help:"Print the report of a run directory again."`
	AB          abCmd          `cmd:"" name:"ab" help:"Run two configurations in turn and say whether they differ."`
	Compare     compareCmd     `cmd:"" help:"Say whether two configurations differ, from several runs of each."`
	Analyze     analyzeCmd     `cmd:"" help:"Compute what a five-column CSV, or one request's token times, allow."`
	Sim         simCmd         `cmd:"" help:"Serve the built-in engine."`
	Check       checkCmd       `cmd:"" help:"Ask whether a target's numbers can be believed, with 20 small requests."`
	Catalog     catalogCmd     `cmd:"" help:"List what the metrics of serving engines mean."`
	Workload    workloadCmd    `cmd:"" help:"Look at a workload or a trace, without sending anything."`
	Calibrate   calibrateCmd   `cmd:"" help:"Find how much load this client takes on this machine."`
	TruthServer truthServerCmd `cmd:"" hidden:""`
	Version     versionCmd     `cmd:"" help:"Print the version."`
}

const description = `Assay measures LLM serving endpoints: what a client sees (TTFT, TPOT, ITL, E2E,
goodput, tails), and what the server says of itself.

  assay run http://localhost:8000        measure a server
  assay run                              measure the built-in engine
  assay report runs/20261130T...         print a run's report again

Exit codes: 0 done; 1 a gate failed; 2 usage or input error; 3 the target is
unreachable, refused us, or completed nothing; 130 interrupted (results kept).`

// Main runs one command and returns its exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	e := &env{stdin: stdin, stdout: stdout, stderr: stderr}
	var c commands
	exit := -1
	parser, err := kong.New(&c,
		kong.Name("assay"), kong.Description(description), kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exit = code }), kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
	)
	if err != nil {
		fmt.Fprintf(stderr, "assay: %v\n", err)
		return exitUsage
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	ctx, err := parser.Parse(joinNegatives(args))
	if exit >= 0 { // --help was asked for and printed
		return exit
	}
	if err != nil {
		complain(stderr, err)
		command := ""
		var p *kong.ParseError
		if errors.As(err, &p) && p.Context != nil {
			command, _, _ = strings.Cut(p.Context.Command(), " ")
		}
		fmt.Fprintf(stderr, "see: %s --help\n", strings.TrimSpace("assay "+command))
		return exitUsage
	}
	err = ctx.Run(e)
	if err != nil {
		complain(stderr, err)
	}
	return exitCode(err)
}

// userinfo of a URL, wherever one stands in a message.
var userinfo = regexp.MustCompile(`//[^/@\s"]*@`)

// complain prints an error on one line, and no credentials of a URL in it.
func complain(w io.Writer, err error) {
	text := userinfo.ReplaceAllString(err.Error(), "//")
	fmt.Fprintf(w, "assay: %s\n", strings.ReplaceAll(strings.TrimSpace(text), "\n", "; "))
}

// negative is what looks like a flag and is a number.
var negative = regexp.MustCompile(`^-[.0-9]`)

// joinNegatives makes "--rate=-1" of "--rate -1", which a parser takes for two
// flags: then the complaint is about the value.
func joinNegatives(args []string) []string {
	var out []string
	for i, a := range args {
		if i > 0 && negative.MatchString(a) && strings.HasPrefix(args[i-1], "--") && !strings.Contains(args[i-1], "=") {
			out[len(out)-1] += "=" + a
			continue
		}
		out = append(out, a)
	}
	return out
}

// heapFloor is memory that is reserved and never touched, so that it costs no
// RAM: the collector, which works in shares of the heap, then rests until that
// share of it was allocated anew. A run of minutes has no collection at all.
const heapFloor = 64 << 20

// Tune makes the process-wide settings of a measuring process: more Ps than
// cores, so that the kernel and not the Go scheduler decides which thread runs
// (a runnable goroutine holds a P for 10 ms, and stamps with it), a lazy
// collector, and as many open files as the hard limit allows. Only the command calls it. The result is to be kept alive.
func Tune() any {
	runtime.GOMAXPROCS(max(8, runtime.NumCPU()+4))
	debug.SetGCPercent(400)
	raiseFiles()
	return make([]byte, heapFloor)
}

type versionCmd struct{}

// Run implements the command.
func (versionCmd) Run(e *env) error {
	_, err := fmt.Fprintln(e.stdout, "assay", version())
	return err
}

// version is the module's version, or the revision that it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "-dirty"
			}
		}
	}
	if revision == "" {
		return "devel"
	}
	return "devel-" + revision + dirty
}
