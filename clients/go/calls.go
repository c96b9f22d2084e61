package peloton

import (
	_ "embed"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

//go:embed calls.json
var callsJSON []byte

var callRules = func() map[string]string {
	var rules map[string]string
	if err := json.Unmarshal(callsJSON, &rules); err != nil {
		panic(err) // the file is part of the build
	}
	return rules
}()

// Repeatable returns whether a call that may have been carried out may be made again: the second time changes
// nothing, since it reads, requests an end state, or names the job or the entity version. The table is calls.json.
func Repeatable(method string, request any) bool {
	rule := callRules[strings.TrimPrefix(method, "/")]
	message, isMessage := request.(proto.Message)
	switch {
	case rule == "always":
		return true
	case rule == "" || rule == "never" || !isMessage:
		return false
	}
	reflected := message.ProtoReflect()
	field := reflected.Descriptor().Fields().ByName(protoreflect.Name(rule))
	if field == nil || !reflected.Has(field) {
		return false
	}
	inner := reflected.Get(field).Message()
	value := inner.Descriptor().Fields().ByName("value")
	return value != nil && inner.Get(value).String() != ""
}

const (
	firstPause   = 100 * time.Millisecond
	longestPause = 500 * time.Millisecond
)

// pauses are the pauses between tries: they double, each drawn from the upper half.
type pauses struct{ last time.Duration }

func (b *pauses) next() time.Duration {
	b.last = min(max(2*b.last, firstPause), longestPause)
	return b.last/2 + rand.N(b.last/2)
}
