// Command assay measures LLM serving endpoints. See package internal/cli.
package main

import (
	"os"
	"runtime"

	"github.com/assay-bench/assay/internal/cli"
)

func main() {
	tuned := cli.Tune()
	code := cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	runtime.KeepAlive(tuned)
	os.Exit(code)
}
