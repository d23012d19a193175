package wire

// Limits of one chunked body's framing; data is not limited here.
const (
	maxChunkDigits    = 15
	maxChunkExtension = 256       // bytes, of one chunk
	maxTrailers       = 4<<10 - 1 // bytes, all together: less than net/http looks ahead, so that the fault is ours
)

// chunks walks the framing of one chunked body byte by byte, and copies nothing. The zero value stands at its
// beginning.
type chunks struct {
	at    chunkPlace
	left  int64 // data bytes of this chunk still to come; while its size is read: the size so far
	count int   // digits, extension bytes or trailer bytes so far
	fault *Fault
}

type chunkPlace uint8

const (
	chunkSize chunkPlace = iota
	chunkExtension
	chunkSizeLF
	chunkData
	chunkDataCR
	chunkDataLF
	trailerStart // at the beginning of a trailer line or of the last, empty one
	trailerName
	trailerValue
	trailerLF
	lastLF
	chunksDone
)

// feed walks over b and says how many of its bytes belong to the body; done when it ended there. A fault stays.
func (c *chunks) feed(b []byte) (n int, done bool, fault *Fault) {
	for n < len(b) && c.fault == nil {
		if c.at == chunkData {
			d := min(c.left, int64(len(b)-n))
			n += int(d)
			if c.left -= d; c.left == 0 {
				c.at = chunkDataCR
			}
			continue
		}
		if c.fault = c.step(b[n]); c.fault != nil {
			break
		}
		n++
		if c.at == chunksDone {
			return n, true, nil
		}
	}
	return n, false, c.fault
}

// step takes one byte of framing.
func (c *chunks) step(b byte) *Fault {
	switch c.at {
	case chunkSize, chunkExtension, chunkSizeLF:
		return c.sizeLine(b)
	case chunkDataCR:
		return c.expect(b, '\r', chunkDataLF, errChunkEnd)
	case chunkDataLF:
		c.count = 0
		return c.expect(b, '\n', chunkSize, errChunkEnd)
	}
	return c.trailer(b)
}

func (c *chunks) expect(b, want byte, next chunkPlace, fault *Fault) *Fault {
	if b != want {
		return fault
	}
	c.at = next
	return nil
}

// sizeLine reads "1*HEXDIG [; extension] CRLF". White space before the semicolon, which RFC 9112 §7.1.1 lets stand
// and no client writes, is read differently by different parsers: refused.
func (c *chunks) sizeLine(b byte) *Fault {
	c.count++
	switch {
	case c.at == chunkSizeLF:
		return c.sizeDone(b)
	case c.at == chunkSize && hexDigit(b) >= 0:
		if c.count > maxChunkDigits {
			return errChunkSize
		}
		c.left = c.left<<4 | int64(hexDigit(b))
	case c.count == 1, c.count > maxChunkExtension: // no digit at all, or no end
		return errChunkSize
	case b == '\r':
		c.at = chunkSizeLF
	case c.at == chunkExtension:
		if b < ' ' && b != '\t' || b == 0x7f {
			return errChunkSize
		}
	case b == ';':
		c.at = chunkExtension
	default:
		return errChunkSize
	}
	return nil
}

func (c *chunks) sizeDone(b byte) *Fault {
	if b != '\n' {
		return errChunkSize
	}
	c.count = 0
	c.at = chunkData
	if c.left == 0 {
		c.at = trailerStart
	}
	return nil
}

// trailer reads "*( field-line CRLF ) CRLF".
func (c *chunks) trailer(b byte) *Fault {
	if c.count++; c.count > maxTrailers {
		return errTrailerLength
	}
	switch c.at {
	case trailerStart:
		if b == '\r' {
			c.at = lastLF
			return nil
		}
		c.at = trailerName
		if !tokens[b] {
			return errTrailer
		}
	case trailerName:
		if b == ':' {
			c.at = trailerValue
		} else if !tokens[b] {
			return errTrailer
		}
	case trailerValue:
		if b == '\r' {
			c.at = trailerLF
		} else if b < ' ' && b != '\t' || b == 0x7f {
			return errTrailer
		}
	case trailerLF:
		return c.expect(b, '\n', trailerStart, errTrailer)
	case lastLF:
		return c.expect(b, '\n', chunksDone, errTrailer)
	}
	return nil
}

func hexDigit(b byte) int {
	switch {
	case '0' <= b && b <= '9':
		return int(b - '0')
	case 'a' <= b && b <= 'f':
		return int(b-'a') + 10
	case 'A' <= b && b <= 'F':
		return int(b-'A') + 10
	}
	return -1
}
