//go:build ignore

// Types checks the types of the package in this folder, with its tests, as $GOARCH's compiler does. It reads the packages
// that this one imports from their sources, without the bodies of their functions, where go vet compiles all of them for
// that processor. Outside ./..., or a race detector's build would have a compiler's parts in it.
package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
)

func main() {
	build.Default.CgoEnabled = false
	found := 0
	say := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		found++
	}
	own, err := build.ImportDir(".", 0)
	if err != nil {
		say(err)
	} else if len(own.XTestGoFiles) > 0 {
		say(fmt.Errorf("tests outside the package are not looked at: %q", own.XTestGoFiles))
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range append(own.GoFiles, own.TestGoFiles...) {
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			say(err)
			continue
		}
		files = append(files, file)
	}
	config := types.Config{
		Importer: importer.ForCompiler(set, "source", nil),
		Sizes:    types.SizesFor("gc", build.Default.GOARCH),
		Error:    say,
	}
	if config.Check(own.Name, set, files, nil); found > 0 {
		os.Exit(1)
	}
	fmt.Printf("%s: %d files\n", build.Default.GOARCH, len(files))
}
