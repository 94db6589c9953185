// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct SessionFrameTests {
    private func decode(_ pieces: [ByteBuffer]) throws -> [SessionFrame] {
        var decoder = SessionFrameDecoder()
        var frames: [SessionFrame] = []
        for piece in pieces {
            decoder.append(piece)
            while let frame = try decoder.next() { frames.append(frame) }
            #expect(decoder.heldBytes < SessionWire.headerBytes + SessionWire.metadataBytes + SessionWire.inlineBytes + 2)
        }
        #expect(decoder.heldBytes == 0)
        return frames
    }

    private func cut(_ buffer: ByteBuffer, at positions: [Int]) -> [ByteBuffer] {
        var rest = buffer
        var pieces: [ByteBuffer] = []
        var start = 0
        for position in positions + [buffer.readableBytes] {
            if let piece = rest.readSlice(length: position - start) { pieces.append(piece) }
            start = position
        }
        return pieces
    }

    @Test func everyFrameRoundTrips() throws {
        for frame in sampleSessionFrames {
            let buffer = encodedSession([frame])
            #expect(buffer.readableBytes == frame.size)
            #expect(try decode([buffer]) == [frame])
        }
    }

    @Test func frameLayoutMatchesTheDocumentation() {
        let request = SessionFrame(
            .request(.inline(sessionBytes(2, 7)), timeLeft: .milliseconds(500)),
            connection: SessionConnectionID(3),
            number: 4
        )
        let metadata: [UInt8] = [0xA1, 0x68] + Array("deadline".utf8) + [0x19, 0x01, 0xF4]
        #expect(
            Array(buffer: encodedSession([request])) == [0, 0, 0, 17, 5, 0, 0, 0, 0, 3, 0, 0, 0, 4, 0, 13] + metadata + [7, 7]
        )
        let data = SessionFrame(.data(sessionBytes(1, 9), of: .response, isLast: true), connection: SessionConnectionID(1), number: 2)
        #expect(Array(buffer: encodedSession([data])) == [0, 0, 0, 1, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 9])
        let window = SessionFrame(.window(0x0102_0304), connection: SessionConnectionID(1))
        #expect(Array(buffer: encodedSession([window])) == [0, 0, 0, 4, 11, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4])
    }

    @Test func messageMetadataIsADeterministicMap() throws {
        for length in [nil, 32_769, 70_000, 1 << 33] as [Int?] {
            for milliseconds in [nil, 0, 23, 24, 255, 256, 65_535, 65_536, UInt32.max] as [UInt32?] {
                let metadata = SessionMessageMetadata(
                    length.map { .announced($0) } ?? .inline(ByteBuffer()),
                    timeLeft: milliseconds.map { .milliseconds($0) }
                )
                var map = ValueSet()
                if let length { map["length"] = .int(Int64(length)) }
                if let milliseconds { map["deadline"] = .int(Int64(milliseconds)) }
                var buffer = ByteBuffer()
                buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: metadata.encodedSize) { memory in
                    var writer = CBORWriter(memory: memory)
                    metadata.write(with: &writer)
                    return writer.position
                }
                #expect(Array(buffer: buffer) == (map.isEmpty ? [] : try map.encodedBytes()))
                #expect(metadata.encodedSize == buffer.readableBytes)
            }
        }
    }

    @Test func deadlineFastPathMatchesTheDecoder() throws {
        for milliseconds in [0, 1, 23, 24, 255, 256, 30_000, 65_535, 65_536, UInt32.max] as [UInt32] {
            let metadata = ByteBuffer(bytes: try (["deadline": .int(Int64(milliseconds))] as ValueSet).encodedBytes())
            #expect(SessionMessageMetadata(deadlineAlone: metadata)?.milliseconds == UInt64(milliseconds))
            for length in 0..<metadata.readableBytes {
                #expect(SessionMessageMetadata(deadlineAlone: try #require(metadata.getSlice(at: 0, length: length))) == nil)
            }
            #expect(SessionMessageMetadata(deadlineAlone: ByteBuffer(bytes: metadata.readableBytesView + [0])) == nil)
        }
        // Longer encodings, larger integers and other maps are left to the general decoder.
        let key: [UInt8] = [0xA1, 0x68] + Array("deadline".utf8)
        for rest in [[0x18, 0x17], [0x19, 0, 0xFF], [0x1A, 0, 0, 0xFF, 0xFF], [0x1B, 0, 0, 0, 1, 0, 0, 0, 0], [0x20], [0xF5], [0x1F]]
            as [[UInt8]]
        {
            #expect(SessionMessageMetadata(deadlineAlone: ByteBuffer(bytes: key + rest)) == nil)
        }
        for map in [[:], ["deadlinf": 1], ["deadline": 1, "other": 2], ["length": 40_000]] as [ValueSet] {
            #expect(SessionMessageMetadata(deadlineAlone: ByteBuffer(bytes: try map.encodedBytes())) == nil)
        }
    }

    @Test func timeLeftIsRoundedUpAndClamped() {
        #expect(SessionDeadline.milliseconds(.nanoseconds(1)) == 1)
        #expect(SessionDeadline.milliseconds(.milliseconds(7)) == 7)
        #expect(SessionDeadline.milliseconds(.zero) == 0)
        #expect(SessionDeadline.milliseconds(.seconds(-3)) == 0)
        #expect(SessionDeadline.milliseconds(.milliseconds(-1)) == 0)
        #expect(SessionDeadline.milliseconds(.seconds(Int64.max)) == .max)
    }

    @Test func headAndBodyCanBeWrittenSeparately() {
        for frame in sampleSessionFrames {
            var head = ByteBuffer()
            let body = SessionFrameEncoder.writeHead(of: frame, to: &head)
            if var body { head.writeBuffer(&body) }
            #expect(head == encodedSession([frame]))
        }
    }

    @Test func anySplitInTwoYieldsTheSameFrames() throws {
        let stream = encodedSession(sampleSessionFrames)
        for position in 0...stream.readableBytes {
            let frames = try decode(cut(stream, at: [position]))
            #expect(frames == sampleSessionFrames, "split at \(position)")
        }
    }

    @Test func singleBytesYieldTheSameFrames() throws {
        let stream = encodedSession(
            sampleSessionFrames + [SessionFrame(.request(.inline(sessionBytes(32_768)), timeLeft: nil), connection: .init(1), number: 9)]
        )
        let frames = try decode(cut(stream, at: Array(1..<stream.readableBytes)))
        #expect(Array(frames.dropLast()) == sampleSessionFrames)
        #expect(frames.last?.size == 14 + 2 + 32_768)
    }

    @Test(arguments: 0..<200 as Range<UInt64>) func anySplitsYieldTheSameFrames(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var frames: [SessionFrame] = []
        for _ in 0..<20 {
            frames.append(sampleSessionFrames.randomElement(using: &random) ?? sampleSessionFrames[0])
            if Bool.random(using: &random) {
                let body = sessionBytes(Int.random(in: 1...32_768, using: &random), UInt8.random(in: 0...255, using: &random))
                frames.append(SessionFrame(.data(body, of: .request, isLast: false), connection: .init(1), number: 1))
            }
        }
        var stream = encodedSession(frames)
        stream.writeImmutableBuffer(
            rawSessionFrame(
                0x80 + UInt8.random(in: 0...127, using: &random),
                flags: 0xFF,
                connection: 5,
                number: 1,
                Array(repeating: 1, count: 1_000)
            )
        )
        SessionFrameEncoder.write(sampleSessionFrames[3], to: &stream)
        let positions = (0..<Int.random(in: 0...60, using: &random)).map { _ in Int.random(in: 0...stream.readableBytes, using: &random) }
        let decoded = try decode(cut(stream, at: positions.sorted()))
        #expect(decoded == frames + [sampleSessionFrames[3]], "seed \(seed)")
    }

    @Test func buffersAccumulateBeforeDecoding() throws {
        let stream = encodedSession(sampleSessionFrames)
        var decoder = SessionFrameDecoder()
        for piece in cut(stream, at: Array(stride(from: 5, to: stream.readableBytes, by: 5))) { decoder.append(piece) }
        var frames: [SessionFrame] = []
        while let frame = try decoder.next() { frames.append(frame) }
        #expect(frames == sampleSessionFrames)
    }

    @Test func bodyInOneBufferSharesItsMemory() throws {
        let stream = encodedSession([SessionFrame(.data(sessionBytes(32_768), of: .request, isLast: true), connection: .init(1), number: 1)]
        )
        var decoder = SessionFrameDecoder()
        decoder.append(stream)
        guard case .data(let body, of: _, isLast: _) = try decoder.next()?.payload else {
            Issue.record("no data frame")
            return
        }
        let received = stream.withUnsafeReadableBytes { UInt(bitPattern: $0.baseAddress) }
        #expect(body.withUnsafeReadableBytes { UInt(bitPattern: $0.baseAddress) } == received + 14)
    }

    // MARK: Rejected input

    private func error(_ buffer: ByteBuffer) -> SessionError? {
        var decoder = SessionFrameDecoder()
        decoder.append(buffer)
        do {
            while try decoder.next() != nil {}
            return nil
        } catch {
            // The decoder stays in the error state.
            decoder.append(encodedSession(sampleSessionFrames))
            #expect(throws: error) { try decoder.next() }
            #expect(decoder.heldBytes <= encodedSession(sampleSessionFrames).readableBytes)
            return error
        }
    }

    @Test func invalidLengthsAreRejectedBeforeTheBody() {
        for type in SessionFrameType.allCases {
            let (connection, number): (UInt32, UInt32) =
                switch type.subject {
                case .session: (0, 0)
                case .connection: (1, 0)
                case .request: (1, 1)
                }
            let lengths = type.bodyLengths
            for length in [lengths.upperBound + 1, 1 << 24, Int(UInt32.max)] {
                #expect(error(rawSessionFrame(type.rawValue, connection: connection, number: number, length: length)) == .frameTooLarge)
            }
            if lengths.lowerBound > 0 {
                #expect(
                    error(rawSessionFrame(type.rawValue, connection: connection, number: number, length: lengths.lowerBound - 1))
                        == .invalidFrame
                )
            }
            #expect(
                error(rawSessionFrame(type.rawValue, connection: connection, number: number, length: lengths.upperBound)) == nil
                    || lengths.upperBound == 0
            )
        }
    }

    @Test func headerFieldsAreChecked() {
        #expect(error(rawSessionFrame(0)) == .unknownFrameType)
        #expect(error(rawSessionFrame(18)) == .unknownFrameType)
        #expect(error(rawSessionFrame(0x7F)) == .unknownFrameType)
        #expect(error(rawSessionFrame(0xFF, length: 65_537)) == .frameTooLarge)
        #expect(error(rawSessionFrame(0xFF, length: 65_536)) == nil)
        #expect(error(rawSessionFrame(3, connection: 0)) == .invalidFrame)
        #expect(error(rawSessionFrame(3, connection: 1, number: 1)) == .invalidFrame)
        #expect(error(rawSessionFrame(10, connection: 1, number: 0)) == .invalidFrame)
        #expect(error(rawSessionFrame(10, connection: 0, number: 1)) == .invalidFrame)
        #expect(error(rawSessionFrame(12, connection: 1, Array(repeating: 0, count: 8))) == .invalidFrame)
        #expect(error(rawSessionFrame(10, flags: 1, connection: 1, number: 1)) == .invalidFrame)
        #expect(error(rawSessionFrame(9, flags: 1, connection: 1, number: 1)) == .invalidFrame)
        #expect(error(rawSessionFrame(8, flags: 4, connection: 1, number: 1, [0])) == .invalidFrame)
        #expect(error(rawSessionFrame(11, connection: 1, [0, 0, 0, 0])) == .invalidFrame)
    }

    @Test func bodiesAreChecked() throws {
        let request = { (body: [UInt8]) in self.error(rawSessionFrame(5, connection: 1, number: 1, body)) }
        #expect(request([0, 0]) == nil)
        #expect(request([0, 1]) == .invalidFrame)
        #expect(request([0x10, 1] + Array(repeating: 0, count: 0x1001)) == .frameTooLarge)
        #expect(request([0, 1, 0xA0]) == nil)
        #expect(request([0, 1, 0x80]) == .invalidMetadata)
        #expect(request([0, 2, 0xA0, 0xA0]) == .invalidMetadata)
        #expect(request([0, 0] + Array(repeating: 0, count: 32_769)) == .frameTooLarge)
        let metadata = { (map: ValueSet, rest: [UInt8]) throws in
            let encoded = try map.encodedBytes()
            return request([0, UInt8(encoded.count)] + encoded + rest)
        }
        #expect(try metadata(["length": 32_769], []) == nil)
        #expect(try metadata(["length": 32_768], []) == .invalidMetadata)
        #expect(try metadata(["length": -1], []) == .invalidMetadata)
        #expect(try metadata(["length": .uint(.max)], []) == .invalidMetadata)
        #expect(try metadata(["length": "40000"], []) == .invalidMetadata)
        #expect(try metadata(["length": 40_000], [1]) == .invalidMetadata)
        #expect(try metadata(["deadline": -1], []) == .invalidMetadata)
        #expect(try metadata(["deadline": 4_294_967_296], []) == .invalidMetadata)
        #expect(try metadata(["deadline": true], []) == .invalidMetadata)
        #expect(try metadata(["later": "ignored"], [1, 2]) == nil)

        let open = { (map: ValueSet, rest: [UInt8]) throws in
            let encoded = try map.encodedBytes()
            return self.error(rawSessionFrame(2, connection: 1, [0, UInt8(encoded.count)] + encoded + rest))
        }
        #expect(try open(["service": "s", "later": 1], []) == nil)
        #expect(try open(["service": 1], []) == .invalidMetadata)
        #expect(try open([:], []) == .invalidMetadata)
        #expect(try open(["service": "s", "caller": 1], []) == .invalidMetadata)
        #expect(try open(["service": "s"], [1]) == .invalidMetadata)
        #expect(error(rawSessionFrame(2, connection: 1, [0, 0])) == .invalidMetadata)

        let settings = { (map: ValueSet) throws in self.error(rawSessionFrame(1, try map.encodedBytes())) }
        #expect(try settings(["version": 1]) == nil)
        #expect(try settings(["version": 7, "limits": ["unknown": 1], "features": .array([])]) == nil)
        #expect(try settings([:]) == .invalidMetadata)
        #expect(try settings(["version": -1]) == .invalidMetadata)
        #expect(try settings(["version": 1, "features": [1]]) == .invalidMetadata)
        #expect(try settings(["version": 1, "features": "x"]) == .invalidMetadata)
        #expect(try settings(["version": 1, "limits": 3]) == .invalidMetadata)
        #expect(try settings(["version": 1, "limits": ["messageBytes": 0]]) == .invalidMetadata)
        let id = ValueSet.Value.data(Array(0..<16))
        #expect(try settings(["version": 1, "session": id]) == nil)
        #expect(try settings(["version": 1, "session": id, "move": .uint(.max), "received": .uint(.max)]) == nil)
        #expect(try settings(["version": 1, "session": .data(Array(0..<15))]) == .invalidMetadata)
        #expect(try settings(["version": 1, "session": "0123456789abcdef"]) == .invalidMetadata)
        #expect(try settings(["version": 1, "session": id, "move": 1]) == .invalidMetadata)
        #expect(try settings(["version": 1, "session": id, "received": 1]) == .invalidMetadata)
        #expect(try settings(["version": 1, "session": id, "move": -1, "received": 1]) == .invalidMetadata)
        #expect(try settings(["version": 1, "move": 1, "received": 1]) == .invalidMetadata)

        #expect(error(rawSessionFrame(4, connection: 1, [0, 1, 0xFF])) == .invalidFrame)
        #expect(error(rawSessionFrame(15, [0, 0, 0, 1, 0, 0, 0xC0])) == .invalidFrame)
    }

    @Test func openWithoutAPackageNamesNoApp() throws {
        func opening(_ map: ValueSet) throws -> SessionOpening? {
            var decoder = SessionFrameDecoder()
            let encoded = try map.encodedBytes()
            decoder.append(rawSessionFrame(2, connection: 1, [0, UInt8(encoded.count)] + encoded))
            guard case .open(let opening) = try decoder.next()?.payload else { return nil }
            return opening
        }
        #expect(try opening(["service": "s"]) == SessionOpening(serviceName: "s"))
        #expect(try opening(["service": "s", "package": ""]) == SessionOpening(serviceName: "s"))
        // No app has the empty id, so a host refuses it with `appNotInstalled`.
        #expect(!ProgramText.isValid(SessionOpening(serviceName: "s").appID))
    }

    @Test(arguments: 0..<300 as Range<UInt64>) func damagedFramesDoNotTrap(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var stream = encodedSession((0..<10).map { _ in sampleSessionFrames.randomElement(using: &random) ?? sampleSessionFrames[0] })
        for _ in 0..<Int.random(in: 1...8, using: &random) {
            let position = Int.random(in: 0..<stream.readableBytes, using: &random)
            stream.setInteger(UInt8.random(in: 0...255, using: &random), at: position)
        }
        var decoder = SessionFrameDecoder()
        decoder.append(stream)
        var count = 0
        while case .some(.some(_)) = try? decoder.next() { count += 1 }
        #expect(count <= stream.readableBytes / SessionWire.headerBytes, "seed \(seed)")
    }

    @Test func textIsTruncatedAtACharacter() {
        let reason = SessionFailure(.failure, String(repeating: "é", count: 1_000))
        #expect(reason.message == String(repeating: "é", count: 512))
        #expect(SessionFailure(.failure, "a" + String(repeating: "é", count: 1_000)).message.utf8.count == 1_023)
        #expect(SessionFailure(.failure, "short").message == "short")
    }

    @Test func smallMessageDoesNotRetainItsReadBuffer() throws {
        var decoder = SessionFrameDecoder()
        var stream = encodedSession([
            SessionFrame(.request(.inline(sessionBytes(100)), timeLeft: nil), connection: SessionConnectionID(1), number: 1)
        ])
        stream.writeImmutableBuffer(rawSessionFrame(0x80, [UInt8](repeating: 0, count: 60_000)))
        decoder.append(stream)
        guard case .request(.inline(let message), timeLeft: _) = try decoder.next()?.payload else {
            Issue.record("no request")
            return
        }
        #expect(message == sessionBytes(100))
        #expect(message.storageCapacity < 1_024)
    }
}
