package report

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/assay-bench/assay/result"
)

// The published schemas of what is printed and stored as JSON. They are made from
// the types, with the types' own comments: -update writes them anew.
var schemas = []struct {
	file, title string
	root        reflect.Type
}{
	{"report.schema.json", "report.json of a run: assay report --json", reflect.TypeFor[result.Run]()},
	{"sweep.schema.json", "report.json of a sweep", reflect.TypeFor[result.Sweep]()},
	{"comparison.schema.json", "assay compare --json", reflect.TypeFor[result.Comparison]()},
}

const schemaDir = "../docs/schema"

func TestSchemasArePublished(t *testing.T) {
	comments := fieldComments(t, "../result", "../record", "../environ")
	for _, s := range schemas {
		got := schemaOf(t, s.title, s.root, comments)
		path := filepath.Join(schemaDir, s.file)
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the types say: go test ./report -update, and raise result.SchemaVersion if a reader of it would stumble", path)
		}
	}
}

// Real reports hold to the schema, and what is not one does not.
func TestReportsHoldToTheSchema(t *testing.T) {
	compiled := func(file string) *jsonschema.Schema {
		s, err := jsonschema.NewCompiler().Compile(filepath.Join(schemaDir, file))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	run := compiled("report.schema.json")
	check := func(s *jsonschema.Schema, v any) error {
		var b bytes.Buffer
		if err := WriteJSON(&b, v); err != nil {
			t.Fatal(err)
		}
		read, err := jsonschema.UnmarshalJSON(&b)
		if err != nil {
			t.Fatal(err)
		}
		return s.Validate(read)
	}
	for name, r := range map[string]*result.Run{
		"good": goodRun(), "bad": badRun(), "partial": partialRun(), "whole": wholeRun(), "chunks": chunkRun(), "errors": errorRun(), "tiny": tinyRun(), "two stages": sweepRun(), "empty": {},
	} {
		if err := check(run, r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := check(compiled("comparison.schema.json"), comparison()); err != nil {
		t.Error(err)
	}
	if check(run, map[string]any{"schema_version": "one"}) == nil || check(run, map[string]any{}) == nil {
		t.Error("what is no report holds to the schema")
	}
}

// schemaOf is the JSON Schema (2020-12) of a type.
func schemaOf(t *testing.T, title string, root reflect.Type, comments map[string]string) []byte {
	m := &schemaMaker{defs: make(map[string]any), comments: comments}
	top := map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title,
		"description": "Schema version " + jsonText(result.SchemaVersion) + ". Durations that end in _ms are milliseconds, in _ns nanoseconds; null is a number that does not exist.",
	}
	for k, v := range m.of(root) {
		top[k] = v
	}
	top["$defs"] = m.defs
	b, err := json.MarshalIndent(top, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

func jsonText(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

type schemaMaker struct {
	defs     map[string]any
	comments map[string]string
}

func (m *schemaMaker) of(t reflect.Type) map[string]any {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[json.RawMessage]():
		return map[string]any{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return map[string]any{"anyOf": []any{m.of(t.Elem()), map[string]any{"type": "null"}}}
	case reflect.Slice:
		return map[string]any{"type": []string{"array", "null"}, "items": m.of(t.Elem())}
	case reflect.Array:
		return map[string]any{"type": "array", "items": m.of(t.Elem()), "minItems": t.Len(), "maxItems": t.Len()}
	case reflect.Map:
		return map[string]any{"type": []string{"object", "null"}, "additionalProperties": m.of(t.Elem())}
	case reflect.Struct:
		return m.structOf(t)
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float64, reflect.Float32:
		return map[string]any{"type": "number"}
	case reflect.Interface:
		return map[string]any{}
	}
	return map[string]any{"type": "integer"}
}

func (m *schemaMaker) structOf(t reflect.Type) map[string]any {
	name := filepath.Base(t.PkgPath()) + "." + t.Name()
	ref := map[string]any{"$ref": "#/$defs/" + name}
	if _, ok := m.defs[name]; ok {
		return ref
	}
	m.defs[name] = nil // of a type that contains itself
	properties, required := make(map[string]any), []string{}
	m.fields(t, name, properties, &required)
	def := map[string]any{"type": "object", "properties": properties, "required": required}
	if text := m.comments[name]; text != "" {
		def["description"] = text
	}
	m.defs[name] = def
	return ref
}

func (m *schemaMaker) fields(t reflect.Type, name string, properties map[string]any, required *[]string) {
	for f := range t.Fields() {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported() || tag == "-":
			continue
		case f.Anonymous && tag == "":
			m.fields(f.Type, filepath.Base(f.Type.PkgPath())+"."+f.Type.Name(), properties, required)
			continue
		case tag == "":
			tag = f.Name
		}
		p := m.of(f.Type)
		if text := m.comments[name+"."+f.Name]; text != "" {
			p["description"] = text
		}
		properties[tag] = p
		if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			*required = append(*required, tag)
		}
	}
}

// fieldComments are those of the types and fields of packages, by
// "package.Type.Field".
func fieldComments(t *testing.T, dirs ...string) map[string]string {
	out := make(map[string]string)
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				d, ok := n.(*ast.GenDecl)
				if !ok || d.Tok != token.TYPE {
					return true
				}
				for _, spec := range d.Specs {
					commentsOf(out, file.Name.Name, d, spec.(*ast.TypeSpec))
				}
				return false
			})
		}
	}
	return out
}

func commentsOf(out map[string]string, pkg string, d *ast.GenDecl, spec *ast.TypeSpec) {
	name := pkg + "." + spec.Name.Name
	text := func(groups ...*ast.CommentGroup) string {
		var parts []string
		for _, g := range groups {
			if s := strings.Join(strings.Fields(g.Text()), " "); s != "" {
				parts = append(parts, s)
			}
		}
		return strings.Join(parts, " ")
	}
	out[name] = text(d.Doc, spec.Doc)
	st, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range st.Fields.List {
		for _, id := range f.Names {
			out[name+"."+id.Name] = text(f.Doc, f.Comment)
		}
	}
}
