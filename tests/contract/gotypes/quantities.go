package main

import (
	"math"

	"k8s.io/apimachinery/pkg/api/resource"
)

// quantity is what resource.Quantity makes of a text: an error, or numbers. A number that is negative or does not fit 64
// bits is left out, for what is answered then is arbitrary (-1e-12 has the value 1, and -1Pi that of -2882303760).
type quantity struct {
	Text      string `json:"text"`
	Error     string `json:"error,omitempty"`
	Value     *int64 `json:"value,omitempty"`
	Milli     *int64 `json:"milli,omitempty"`
	Sign      int    `json:"sign"`
	Canonical string `json:"canonical,omitempty"`
}

func quantities() []quantity {
	var result []quantity
	numbers := []string{
		"0", "1", "7", "8", "100", "999", "1000", "1001", "1023", "1024", "1025", "4096", "1048576", "123456789",
		"9007199254740993", "9223372036854775807", "9223372036854775808", "12345678901234567890123",
		"0.1", "0.5", "1.5", "2.75", "1.000000001", "0.0000000001", "1.0000000001", "3.141592653589793238462643",
		"00012", "000", ".5", "5.", "0.", ".", "", "1.2.3", "0x10", "1_000",
	}
	suffixes := []string{
		"", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
		"e0", "e3", "E3", "e+2", "e-2", "e-12", "e20", "e019", "E-3", "e", "e+", "ki", "K", "mi", "i", "Kim", "x", "3e3", " ",
		"e99999999999999999999",
	}
	for _, sign := range []string{"", "-"} {
		for _, number := range numbers {
			for _, suffix := range suffixes {
				result = append(result, read(sign+number+suffix))
			}
		}
	}
	for _, text := range []string{"+1", "+1.5Gi", "--1", "+-1", "+", "-", " 1", "1 ", "\t1", "1\n", "１", "é", "1m1", "1+", "1-3", "m", "Ki", "e3", "NaN", "Inf", "0x1p3"} {
		result = append(result, read(text))
	}
	return result
}

func read(text string) quantity {
	parsed, err := resource.ParseQuantity(text)
	if err != nil {
		return quantity{Text: text, Error: err.Error()}
	}
	// Adding nothing makes it forget how it was written.
	parsed.Add(resource.Quantity{Format: parsed.Format})
	result := quantity{Text: text, Sign: parsed.Sign()}
	// It has no suffix past E and leaves it out, which changes the amount.
	if again, err := resource.ParseQuantity(parsed.String()); err == nil && again.Cmp(parsed) == 0 {
		result.Canonical = parsed.String()
	}
	if fits(parsed, 1) {
		value := parsed.Value()
		result.Value = &value
	}
	if fits(parsed, 1000) {
		milli := parsed.MilliValue()
		result.Milli = &milli
	}
	return result
}

func fits(q resource.Quantity, times int64) bool {
	return q.Sign() >= 0 && q.CmpInt64(math.MaxInt64/times) <= 0
}
