// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Tracing
import DeviceRelay
import DeviceRelayTesting
import Foundation
import Synchronization
import Testing
import Tracing

/// A tracer with W3C contexts that keeps the spans of the traces that a test watches. The process has one, for all tests.
final class RecordingTracer: Tracer, Sendable {
    struct Record: Hashable, Sendable {
        var name: String
        var parent: String?
        var isError = false
        /// Whether it has an attribute, an event, a link or a text.
        var hasContent = false
    }

    struct Parent: ServiceContextKey {
        typealias Value = String
    }

    final class RecordingSpan: Tracing.Span, Sendable {
        let context: ServiceContext
        private let record: Mutex<Record>
        private let end: @Sendable (Record) -> Void

        init(_ record: Record, _ context: ServiceContext, end: @escaping @Sendable (Record) -> Void) {
            self.record = Mutex(record)
            self.context = context
            self.end = end
        }

        var operationName: String {
            get { record.withLock { $0.name } }
            set { record.withLock { $0.name = newValue } }
        }
        var attributes: SpanAttributes {
            get { [:] }
            set { noteContent() }
        }
        var isRecording: Bool { true }
        func setStatus(_ status: SpanStatus) {
            record.withLock { $0.isError = status.code == .error }
            if status.message != nil { noteContent() }
        }
        func addEvent(_ event: SpanEvent) { noteContent() }
        func addLink(_ link: SpanLink) { noteContent() }
        func recordError<Instant: TracerInstant>(_ error: any Error, attributes: SpanAttributes, at instant: @autoclosure () -> Instant) {
            noteContent()
        }
        private func noteContent() { record.withLock { $0.hasContent = true } }
        func end<Instant: TracerInstant>(at instant: @autoclosure () -> Instant) { end(record.withLock { $0 }) }
    }

    static let shared: RecordingTracer = {
        let tracer = RecordingTracer()
        InstrumentationSystem.bootstrap(tracer)
        return tracer
    }()

    private let traces = Mutex<[String: AsyncStream<(id: String, Record)>.Continuation]>([:])

    private static func random(_ bytes: Int) -> String {
        (0..<bytes).map { _ in String(UInt8.random(in: 1...255), radix: 16) }.map { $0.count == 1 ? "0\($0)" : $0 }.joined()
    }

    /// Runs a closure in a new span of a new trace.
    /// - Returns: The spans of the trace as they end, with their ids.
    func watch(_ body: () async throws -> Void) async throws -> (root: String, AsyncStream<(id: String, Record)>) {
        let (trace, id) = (Self.random(16), Self.random(8))
        let (stream, continuation) = AsyncStream.makeStream(of: (id: String, Record).self)
        traces.withLock { $0[trace] = continuation }
        var context = ServiceContext.topLevel
        context[Parent.self] = "00-\(trace)-\(id)-01"
        try await ServiceContext.withValue(context) { try await body() }
        return (id, stream)
    }

    func startSpan<Instant: TracerInstant>(
        _ operationName: String,
        context: @autoclosure () -> ServiceContext,
        ofKind kind: SpanKind,
        at instant: @autoclosure () -> Instant,
        function: String,
        file fileID: String,
        line: UInt
    ) -> RecordingSpan {
        var context = context()
        let parts = context[Parent.self]?.split(separator: "-").map(String.init)
        let (trace, id) = (parts?[1] ?? Self.random(16), Self.random(8))
        context[Parent.self] = "00-\(trace)-\(id)-01"
        return RecordingSpan(Record(name: operationName, parent: parts?[2]), context) { record in
            self.traces.withLock { $0[trace] }?.yield((id, record))
        }
    }

    func forceFlush() {}

    func inject<Carrier, Inject: Injector>(_ context: ServiceContext, into carrier: inout Carrier, using injector: Inject)
    where Inject.Carrier == Carrier {
        if let parent = context[Parent.self] { injector.inject(parent, forKey: "traceparent", into: &carrier) }
        injector.inject("secret=1", forKey: "baggage", into: &carrier)
    }

    func extract<Carrier, Extract: Extractor>(_ carrier: Carrier, into context: inout ServiceContext, using extractor: Extract)
    where Extract.Carrier == Carrier {
        if let parent = extractor.extract(key: "traceparent", from: carrier) { context[Parent.self] = parent }
    }
}

/// A launch and a call are one trace over the sender, the relay and the target, which talk over real connections here.
@Suite(.timeLimit(.minutes(10))) struct TraceTests {
    private typealias Spans = [String: (id: String, record: RecordingTracer.Record)]

    private func spans(_ names: Set<String>, of stream: AsyncStream<(id: String, RecordingTracer.Record)>) async -> Spans {
        var found: Spans = [:]
        for await (id, record) in stream {
            #expect(found[record.name] == nil, "\(record.name) twice")
            found[record.name] = (id, record)
            if names.isSubset(of: found.keys) { break }
        }
        return found
    }

    private func withDevices(_ body: @Sendable (Remote, RemoteSystem) async throws -> Void) async throws {
        let (_, shown) = AsyncStream.makeStream(of: String.self)
        let app = PhotoApp(albums: ["rome": ["forum.jpg"]], shown: shown)
        try await withTestRelay { relay in
            _ = try await relay.platform(named: "PC", kind: .desktop, publishing: app.registration)
            let phone = Remote(platform: try await relay.platform(named: "Phone"))
            try await body(phone, try #require(await phone.pc()))
        }
    }

    @Test func launchIsOneTrace() async throws {
        try await withDevices { phone, pc in
            let (root, stream) = try await RecordingTracer.shared.watch { try await phone.show("rome", on: pc) }
            let spans = await spans(["launch", "accept command", "handle launch"], of: stream)
            let launch = try #require(spans["launch"])
            #expect(launch.record == .init(name: "launch", parent: root))
            #expect(spans["accept command"]?.record == .init(name: "accept command", parent: launch.id))
            #expect(spans["handle launch"]?.record == .init(name: "handle launch", parent: launch.id))
            #expect(spans.count == 3)
        }
    }

    @Test func callIsOneTrace() async throws {
        try await withDevices { phone, pc in
            let (root, stream) = try await RecordingTracer.shared.watch { () async throws in
                #expect(try await phone.names(in: "rome", on: pc) == ["forum.jpg"])
            }
            let names: Set = ["open app service", "open tunnel", "call app service", "handle call", "serve app service"]
            let spans = await spans(names, of: stream)
            #expect(Set(spans.keys) == names)
            let opened = try #require(spans["open app service"])
            #expect(opened.record.parent == root)
            for name in names.subtracting(["open app service"]) {
                #expect(spans[name]?.record == .init(name: name, parent: opened.id))
            }
        }
    }

    @Test func messageIsOneTraceAndAFailureOnlyMarksItsSpan() async throws {
        try await withDevices { phone, pc in
            let (root, stream) = try await RecordingTracer.shared.watch { () async throws in
                await #expect(throws: AppServiceError.self) {
                    try await phone.platform.sendStatelessMessage(
                        try ValueSetEncoder().encode(PhotoApp.ListAlbum(album: "secret album")),
                        to: PhotoApp.photos,
                        on: .init(pc)
                    )
                }
            }
            let spans = await spans(["send message", "accept command", "handle message"], of: stream)
            let sent = try #require(spans["send message"])
            #expect(sent.record == .init(name: "send message", parent: root, isError: true))
            #expect(spans["accept command"]?.record.parent == sent.id)
            #expect(spans["handle message"]?.record.parent == sent.id)
        }
    }
}
#endif
