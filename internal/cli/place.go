package cli

import (
	"os"
	"path/filepath"
	"strings"
)

// place gives err, what validate says, the file, line and column where it is that
// a workload is wrong. A file is blamed for what is wrong with it alone: flags and
// later files may have put a value in place of its own. Standard input is gone.
func (c *baseFlags) place(err error, cfg *config) error {
	if err == nil {
		return nil
	}
	fault := cfg.Workload.Validate()
	if fault == nil || !strings.HasSuffix(err.Error(), fault.Error()) {
		return err
	}
	for _, f := range c.File {
		b, rerr := os.ReadFile(f)
		if f == "-" || rerr != nil {
			continue
		}
		alone := defaultConfig()
		if alone.readYAML(b, filepath.Base(f)) != nil {
			continue
		}
		alone.settle()
		if own := alone.Workload.Validate(); own != nil && own.Error() == fault.Error() {
			return usageError{blame(fault, b, filepath.Base(f), false)}
		}
	}
	return err
}
