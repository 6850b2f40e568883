// Command assay measures LLM serving endpoints. See package internal/cli.
package main

import (
	"os"

	"github.com/assay-bench/assay/internal/cli"
)

func main() {
	cli.Tune()
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
