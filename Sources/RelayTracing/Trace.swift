// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

#if Tracing
import Tracing
#endif

/// The spans of launches and calls, for the tracer that the program has installed in `InstrumentationSystem`. They carry ids and no content.
/// Without the package trait `Tracing` there are none, and no tracing library.
package enum Trace {
    package enum Kind {
        case client, server, producer, consumer
    }

    /// The span of the current task, for another process. `nil` if there is none, or the tracer has no W3C context.
    package static var current: TraceContext? {
        #if Tracing
        ServiceContext.current.flatMap { TraceCarrier.context($0) }
        #else
        nil
        #endif
    }

    /// Runs a closure in a span. An error only marks the span, because its text may contain content.
    /// - Parameter parent: The span of another process; the current task's by default.
    package static func span<Value, Failure: Error>(
        _ name: String,
        _ kind: Kind,
        of parent: TraceContext? = nil,
        _ body: () async throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        #if Tracing
        let span = startSpan(name, context: TraceCarrier.serviceContext(parent), ofKind: SpanKind(kind))
        defer { span.end() }
        let result: Result<Value, Failure> = await ServiceContext.withValue(span.context) {
            do throws(Failure) { return .success(try await body()) } catch { return .failure(error) }
        }
        if case .failure = result { span.setStatus(SpanStatus(code: .error)) }
        return try result.get()
        #else
        return try await body()
        #endif
    }

    /// Starts a span of work that no task waits for.
    /// - Parameter parent: The span of another process. Without it there is no span.
    /// - Returns: Ends the span.
    package static func start(_ name: String, _ kind: Kind, of parent: TraceContext?) -> (@Sendable (_ isSuccess: Bool) -> Void)? {
        #if Tracing
        guard let parent else { return nil }
        let span = startSpan(name, context: TraceCarrier.serviceContext(parent), ofKind: SpanKind(kind))
        return { isSuccess in
            if !isSuccess { span.setStatus(SpanStatus(code: .error)) }
            span.end()
        }
        #else
        return nil
        #endif
    }
}

#if Tracing
/// Takes the W3C context out of a tracer's, and back. Other fields, such as baggage, would be content.
private enum TraceCarrier {
    private static let key = "traceparent"

    private struct Fields: Injector, Extractor {
        func inject(_ value: String, forKey key: String, into carrier: inout [String: String]) { carrier[key.lowercased()] = value }
        func extract(key: String, from carrier: [String: String]) -> String? { carrier[key.lowercased()] }
    }

    static func context(_ context: ServiceContext) -> TraceContext? {
        var carrier: [String: String] = [:]
        InstrumentationSystem.instrument.inject(context, into: &carrier, using: Fields())
        return carrier[key].flatMap { TraceContext(rawValue: $0) }
    }

    static func serviceContext(_ parent: TraceContext?) -> ServiceContext {
        var context = ServiceContext.current ?? .topLevel
        guard let parent else { return context }
        InstrumentationSystem.instrument.extract([key: parent.rawValue], into: &context, using: Fields())
        return context
    }
}

extension SpanKind {
    fileprivate init(_ kind: Trace.Kind) {
        self =
            switch kind {
            case .client: .client
            case .server: .server
            case .producer: .producer
            case .consumer: .consumer
            }
    }
}
#endif
