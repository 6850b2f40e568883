//go:build !parquet

package dataset

import (
	"errors"
	"io"
)

// newParquet refuses: the reader adds a third to the time of a first build, and
// few traces are in Parquet.
func newParquet(io.Reader, *setter, Options) (rowSource, error) {
	return nil, errors.New("is a Parquet file, and this binary was built without a reader for them: build with -tags parquet, or convert it to CSV")
}
