package peloton

import (
	"encoding/base64"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"gopkg.in/yaml.v3"
)

const mostSpecDepth = 100

// ReadSpec reads a message from a YAML file, as the command line does; see ParseSpec.
func ReadSpec(file string, message proto.Message) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return invalid("spec", file, "a readable file: "+err.Error())
	}
	return ParseSpec(text, file, message)
}

// ParseSpec sets the fields of a message from YAML. Keys are matched without case and underscores, enums by
// name or number, also without the prefix that their values share. A failure names source, line and field.
func ParseSpec(text []byte, source string, message proto.Message) error {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return invalid("spec", source, "YAML: "+err.Error())
	}
	if len(document.Content) == 0 {
		return invalid("spec", source, "a mapping: the file is empty")
	}
	return specReader{source}.fill(message.ProtoReflect(), document.Content[0], "", 0)
}

type specReader struct{ source string }

func (r specReader) fail(node *yaml.Node, path, expected string) error {
	value := node.Value
	switch node.Kind {
	case yaml.MappingNode:
		value = "a mapping"
	case yaml.SequenceNode:
		value = "a list"
	}
	return &Error{
		Code: codes.InvalidArgument, Field: path, Value: value, Expected: expected,
		Message: fmt.Sprintf("%s:%d: %s: %q is not %s", r.source, node.Line, path, value, expected),
	}
}

func (r specReader) fill(message protoreflect.Message, node *yaml.Node, path string, depth int) error {
	node = resolved(node)
	if depth > mostSpecDepth {
		return r.fail(node, path, "nested less deeply")
	}
	switch message.Descriptor().FullName() {
	case "google.protobuf.Timestamp", "google.protobuf.Duration":
		if err := protojson.Unmarshal([]byte(strconv.Quote(node.Value)), message.Interface()); err != nil {
			return r.fail(node, path, "a time such as 2026-01-31T12:00:00Z, or a duration such as 3.5s")
		}
		return nil
	}
	if node.Kind != yaml.MappingNode {
		return r.fail(node, path, "a mapping: `key: value` lines")
	}
	known := fieldNames(message.Descriptor())
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], resolved(node.Content[i+1])
		inner := joined(path, key.Value)
		field := known[normalized(key.Value)]
		switch {
		case field == nil:
			return r.fail(key, inner, fmt.Sprintf("a field of %s", message.Descriptor().Name()))
		case isSet(message, field):
			return r.fail(key, inner, "given once, without another choice beside it")
		case value.Tag == "!!null":
			continue
		}
		if err := r.set(message, field, value, inner, depth); err != nil {
			return err
		}
	}
	return nil
}

func isSet(message protoreflect.Message, field protoreflect.FieldDescriptor) bool {
	if group := field.ContainingOneof(); group != nil {
		return message.WhichOneof(group) != nil
	}
	return message.Has(field)
}

func (r specReader) set(
	message protoreflect.Message, field protoreflect.FieldDescriptor, node *yaml.Node, path string, depth int,
) error {
	switch {
	case field.IsMap():
		return r.setMap(message.Mutable(field).Map(), field, node, path, depth)
	case field.IsList():
		return r.setList(message.Mutable(field).List(), field, node, path, depth)
	case field.Message() != nil:
		return r.fill(message.Mutable(field).Message(), node, path, depth+1)
	}
	value, err := r.scalar(field, node, path)
	if err == nil {
		message.Set(field, value)
	}
	return err
}

func (r specReader) setList(
	list protoreflect.List, field protoreflect.FieldDescriptor, node *yaml.Node, path string, depth int,
) error {
	if node.Kind != yaml.SequenceNode {
		return r.fail(node, path, "a list: each entry on a line of its own, with `- ` before it")
	}
	for i, item := range node.Content {
		inner := fmt.Sprintf("%s[%d]", path, i)
		if field.Message() != nil {
			if err := r.fill(list.AppendMutable().Message(), item, inner, depth+1); err != nil {
				return err
			}
			continue
		}
		value, err := r.scalar(field, resolved(item), inner)
		if err != nil {
			return err
		}
		list.Append(value)
	}
	return nil
}

func (r specReader) setMap(
	entries protoreflect.Map, field protoreflect.FieldDescriptor, node *yaml.Node, path string, depth int,
) error {
	if node.Kind != yaml.MappingNode {
		return r.fail(node, path, "a mapping: `key: value` lines")
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		inner := joined(path, node.Content[i].Value)
		key, err := r.scalar(field.MapKey(), node.Content[i], inner)
		if err != nil {
			return err
		}
		value := entries.NewValue()
		if field.MapValue().Message() != nil {
			err = r.fill(value.Message(), node.Content[i+1], inner, depth+1)
		} else {
			value, err = r.scalar(field.MapValue(), resolved(node.Content[i+1]), inner)
		}
		if err != nil {
			return err
		}
		entries.Set(key.MapKey(), value)
	}
	return nil
}

func (r specReader) scalar(
	field protoreflect.FieldDescriptor, node *yaml.Node, path string,
) (protoreflect.Value, error) {
	none := protoreflect.Value{}
	if node.Kind != yaml.ScalarNode {
		return none, r.fail(node, path, "a single value")
	}
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(node.Value), nil
	case protoreflect.BytesKind:
		return r.bytes(node, path)
	case protoreflect.BoolKind:
		var value bool
		if node.Tag != "!!bool" && !isOldBool(node) || node.Decode(&value) != nil {
			return none, r.fail(node, path, "true or false")
		}
		return protoreflect.ValueOfBool(value), nil
	case protoreflect.EnumKind:
		return r.enum(field.Enum(), node, path)
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		value, err := strconv.ParseFloat(node.Value, 64)
		if err != nil || math.IsInf(value, 0) || !(value >= 0) {
			return none, r.fail(node, path, "a number of 0 or more")
		}
		if field.Kind() == protoreflect.FloatKind {
			return protoreflect.ValueOfFloat32(float32(value)), nil
		}
		return protoreflect.ValueOfFloat64(value), nil
	}
	return r.integer(field.Kind(), node, path)
}

// isOldBool returns whether the text is one that YAML 1.1 took for a truth value.
func isOldBool(node *yaml.Node) bool {
	switch strings.ToLower(node.Value) {
	case "yes", "no", "on", "off":
		return node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0
	}
	return false
}

func (r specReader) bytes(node *yaml.Node, path string) (protoreflect.Value, error) {
	if node.Tag != "!!binary" {
		return protoreflect.ValueOfBytes([]byte(node.Value)), nil
	}
	value, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(node.Value), ""))
	if err != nil {
		return protoreflect.Value{}, r.fail(node, path, "base64")
	}
	return protoreflect.ValueOfBytes(value), nil
}

func (r specReader) integer(kind protoreflect.Kind, node *yaml.Node, path string) (protoreflect.Value, error) {
	bits, signed := 64, false
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		bits, signed = 32, true
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		signed = true
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		bits = 32
	}
	most := bits
	if signed {
		most = bits - 1
	}
	value, err := strconv.ParseUint(node.Value, 0, most)
	if err != nil {
		whole, bad := strconv.ParseFloat(node.Value, 64) // 1e3, 4.0
		if bad != nil || whole != math.Trunc(whole) || whole < 0 || whole >= 1<<53 || whole >= math.Ldexp(1, most) {
			return protoreflect.Value{}, r.fail(node, path, fmt.Sprintf("a whole number from 0 to %d", uint64(1)<<most-1))
		}
		value = uint64(whole)
	}
	switch {
	case signed && bits == 32:
		return protoreflect.ValueOfInt32(int32(value)), nil
	case signed:
		return protoreflect.ValueOfInt64(int64(value)), nil
	case bits == 32:
		return protoreflect.ValueOfUint32(uint32(value)), nil
	}
	return protoreflect.ValueOfUint64(value), nil
}

func (r specReader) enum(enum protoreflect.EnumDescriptor, node *yaml.Node, path string) (protoreflect.Value, error) {
	names := make([]string, enum.Values().Len())
	for i := range names {
		names[i] = string(enum.Values().Get(i).Name())
	}
	prefix := sharedPrefix(names)
	for i, name := range names {
		given, value := normalized(node.Value), enum.Values().Get(i)
		if given == normalized(name) || given == normalized(name[prefix:]) ||
			given == strconv.Itoa(int(value.Number())) {
			return protoreflect.ValueOfEnum(value.Number()), nil
		}
	}
	return protoreflect.Value{}, r.fail(node, path, "one of "+strings.Join(names, ", "))
}

// sharedPrefix returns the length of the words that all names begin with: `STATE_` in `STATE_UP`, `STATE_DOWN`.
func sharedPrefix(names []string) int {
	if len(names) < 2 {
		return 0
	}
	prefix := names[0]
	for _, name := range names {
		for !strings.HasPrefix(name, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	return strings.LastIndex(prefix, "_") + 1
}

func fieldNames(message protoreflect.MessageDescriptor) map[string]protoreflect.FieldDescriptor {
	known := map[string]protoreflect.FieldDescriptor{}
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		known[normalized(string(field.Name()))] = field
	}
	return known
}

func normalized(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

func joined(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func resolved(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}
