// Package house holds the rules of the code base, as tests: who may import
// whom, and who may read a clock.
package house
