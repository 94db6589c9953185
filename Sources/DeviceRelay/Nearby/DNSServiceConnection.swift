// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(dnssd)
import Dispatch
import NIOCore
import RelayProtocol
import dnssd

/// A connection to the system's DNS-SD daemon, for one interface. It is used on the event loop. After the first failure it is closed: the
/// daemon may have ended, and a new connection is needed.
final class DNSServiceConnection {
    struct Failed: Error {
        /// Of `dns_sd.h`.
        let code: DNSServiceErrorType
    }

    /// Something that the daemon does until it is ended. Its callbacks get it as their context.
    final class Operation {
        /// Gets the content of a record, or a label; and whether it is there, or has ended.
        fileprivate let onReply: (_ bytes: [UInt8], _ isThere: Bool) -> Void
        fileprivate let onFailure: (DNSServiceErrorType) -> Void
        fileprivate var reference: DNSServiceRef?
        /// `nil` if it uses that of the connection.
        fileprivate var socket: DaemonSocket?

        fileprivate init(_ onReply: @escaping ([UInt8], Bool) -> Void, _ onFailure: @escaping (DNSServiceErrorType) -> Void) {
            (self.onReply, self.onFailure) = (onReply, onFailure)
        }

        fileprivate static func of(_ context: UnsafeMutableRawPointer?) -> Operation? {
            context.map { Unmanaged<Operation>.fromOpaque($0).takeUnretainedValue() }
        }
    }

    private static let none = DNSServiceErrorType(kDNSServiceErr_NoError)
    /// `kDNSServiceFlagsShareConnection`, which Avahi's header does not have.
    private static let shareConnection: DNSServiceFlags = 0x4000
    private static let type = "_device-relay._tcp"
    /// Without a domain the service would also use those of the network's unicast DNS.
    private static let domain = "local."

    private let loop: EndpointLoop
    private let interface: UInt32
    private let onFailure: (Failed) -> Void
    private let onReplies: () -> Void
    private var socket: DaemonSocket?
    private var operations: [ObjectIdentifier: Operation] = [:]
    private var isClosed = false

    /// - Parameters:
    ///   - onReplies: Called after some replies.
    ///   - onFailure: Called once, when the connection has closed itself.
    init(
        _ loop: EndpointLoop,
        interface: Int,
        onReplies: @escaping () -> Void = {},
        onFailure: @escaping (Failed) -> Void
    ) throws(Failed) {
        (self.loop, self.interface) = (loop, UInt32(clamping: interface))
        (self.onReplies, self.onFailure) = (onReplies, onFailure)
        var reference: DNSServiceRef?
        let error = DNSServiceCreateConnection(&reference)
        #if os(Linux)
        // Avahi's library, with which this is tested, opens a connection for each operation.
        if error == DNSServiceErrorType(kDNSServiceErr_Unsupported) { return }
        #endif
        guard error == Self.none, let reference else { throw Failed(code: error) }
        socket = try open(reference)
    }

    /// Whether records can be registered under a host name of one's own.
    var hasOwnHosts: Bool { socket != nil }

    private func open(_ reference: DNSServiceRef) throws(Failed) -> DaemonSocket {
        guard let socket = DaemonSocket(reference, loop) else {
            DNSServiceRefDeallocate(reference)
            throw Failed(code: DNSServiceErrorType(kDNSServiceErr_Unknown))
        }
        socket.onRead = { [weak self] error in
            guard let self, !isClosed else { return }
            error == Self.none ? onReplies() : failed(error)
        }
        return socket
    }

    private func failed(_ code: DNSServiceErrorType) {
        guard !isClosed else { return }
        close()
        onFailure(Failed(code: code))
    }

    // MARK: Operations

    /// Looks for instances of the service.
    /// - Parameter onReply: Gets the label of each.
    func browse(_ onReply: @escaping ([UInt8], Bool) -> Void) throws(Failed) -> Operation {
        try begin(onReply) { reference, flags, context in
            DNSServiceBrowse(
                &reference,
                flags,
                interface,
                Self.type,
                Self.domain,
                { _, flags, _, error, name, _, _, context in
                    guard let operation = Operation.of(context) else { return }
                    guard error == DNSServiceConnection.none, let name else { return operation.onFailure(error) }
                    var label: [UInt8] = []
                    while name[label.count] != 0 { label.append(UInt8(bitPattern: name[label.count])) }
                    operation.onReply(label, flags & DNSServiceFlags(kDNSServiceFlagsAdd) != 0)
                },
                context
            )
        }
    }

    /// Asks for the records of a name and type, until it is ended.
    /// - Parameter onReply: Gets the content of each.
    func ask(_ question: DNSQuestion, _ onReply: @escaping ([UInt8], Bool) -> Void) throws(Failed) -> Operation {
        try begin(onReply) { reference, flags, context in
            DNSServiceQueryRecord(
                &reference,
                flags,
                interface,
                "\(question.name)",
                question.type.rawValue,
                UInt16(kDNSServiceClass_IN),
                { _, flags, _, error, _, _, _, count, data, _, context in
                    // An error says that there is no such record now.
                    guard error == DNSServiceConnection.none, let operation = Operation.of(context) else { return }
                    let content = UnsafeRawBufferPointer(start: data, count: data == nil ? 0 : Int(count))
                    operation.onReply(Array(content), flags & DNSServiceFlags(kDNSServiceFlagsAdd) != 0)
                },
                context
            )
        }
    }

    /// Advertises an instance, with the addresses of a host of its own. The daemon renames what is taken.
    func register(_ instance: ServiceInstance) throws(Failed) {
        if hasOwnHosts {
            for record in instance.uniqueRecords {
                if case .address = record.content { try register(record) }
            }
        }
        let text = DNSRecord.Content.text(instance.text).encoded
        // Without a host, Avahi's library takes the machine's name. Apple's service always has own hosts.
        let host = hasOwnHosts ? "\(instance.host)" : nil
        _ = try begin({ _, _ in }) { reference, flags, context in
            DNSServiceRegister(
                &reference,
                flags,
                interface,
                instance.labels.instance,
                Self.type,
                Self.domain,
                host,
                instance.port.bigEndian,
                UInt16(clamping: text.count),
                text,
                { _, _, error, _, _, _, context in
                    if error != DNSServiceConnection.none { Operation.of(context)?.onFailure(error) }
                },
                context
            )
        }
    }

    /// The name is random. As a shared record it needs no probes, and several addresses do not exclude each other.
    private func register(_ record: DNSRecord) throws(Failed) {
        guard let socket else { return }
        let operation = Operation({ _, _ in }) { [weak self] in self?.failed($0) }
        let content = record.content.encoded
        var reference: DNSRecordRef?
        let error = DNSServiceRegisterRecord(
            socket.reference,
            &reference,
            DNSServiceFlags(kDNSServiceFlagsShared),
            interface,
            "\(record.name)",
            record.kind.rawValue,
            UInt16(kDNSServiceClass_IN),
            UInt16(clamping: content.count),
            content,
            record.timeToLive,
            { _, _, _, error, context in
                if error != DNSServiceConnection.none { Operation.of(context)?.onFailure(error) }
            },
            Unmanaged.passUnretained(operation).toOpaque()
        )
        guard error == Self.none else { throw Failed(code: error) }
        // The record ends with the connection.
        operations[ObjectIdentifier(operation)] = operation
    }

    private func begin(
        _ onReply: @escaping ([UInt8], Bool) -> Void,
        _ start: (inout DNSServiceRef?, DNSServiceFlags, UnsafeMutableRawPointer) -> DNSServiceErrorType
    ) throws(Failed) -> Operation {
        let operation = Operation(onReply) { [weak self] in self?.failed($0) }
        var reference = socket?.reference
        let error = start(&reference, socket == nil ? 0 : Self.shareConnection, Unmanaged.passUnretained(operation).toOpaque())
        guard error == Self.none, let reference else { throw Failed(code: error) }
        // A callback may have failed already.
        guard !isClosed else {
            if socket == nil { DNSServiceRefDeallocate(reference) }
            throw Failed(code: DNSServiceErrorType(kDNSServiceErr_Unknown))
        }
        operation.reference = reference
        if socket == nil { operation.socket = try open(reference) }
        operations[ObjectIdentifier(operation)] = operation
        return operation
    }

    func end(_ operation: Operation) {
        guard operations.removeValue(forKey: ObjectIdentifier(operation)) != nil else { return }
        if let socket = operation.socket {
            socket.close()
        } else if let reference = operation.reference {
            DNSServiceRefDeallocate(reference)
        }
    }

    /// Ends everything. The daemon says goodbye for what was advertised.
    /// - Returns: When it is done.
    @discardableResult
    func close() -> [EventLoopFuture<Void>] {
        isClosed = true
        let sockets = operations.values.compactMap(\.socket) + [socket].compactMap(\.self)
        operations = [:]
        for socket in sockets { socket.close() }
        return sockets.map(\.closed)
    }
}

/// A socket of the daemon's library, which reads it when something has arrived. With the reference, all that share its socket end.
private final class DaemonSocket {
    let reference: DNSServiceRef
    let closed: EventLoopFuture<Void>
    /// Called after each reading with its error.
    var onRead: (DNSServiceErrorType) -> Void = { _ in }

    private let source: any DispatchSourceRead
    private var isClosed = false

    /// - Returns: `nil` if there is no socket. Then the reference is not deallocated.
    init?(_ reference: DNSServiceRef, _ loop: EndpointLoop) {
        let descriptor = DNSServiceRefSockFD(reference)
        guard descriptor >= 0 else { return nil }
        self.reference = reference
        source = DispatchSource.makeReadSource(fileDescriptor: CInt(descriptor), queue: .global())
        let promise = loop.eventLoop.makePromise(of: Void.self)
        closed = promise.futureResult
        let bound = NIOLoopBound(self, eventLoop: loop.eventLoop)
        let (source, eventLoop) = (source, loop.eventLoop)
        // The source reports until the socket is read, so it pauses for the event loop.
        source.setEventHandler {
            source.suspend()
            eventLoop.execute { bound.value.read() }
        }
        // The socket belongs to the source until here. Nothing else uses the reference any more.
        nonisolated(unsafe) let ended = reference
        source.setCancelHandler {
            DNSServiceRefDeallocate(ended)
            promise.succeed()
        }
        source.resume()
    }

    private func read() {
        defer { source.resume() }
        guard !isClosed else { return }
        let error = DNSServiceProcessResult(reference)
        if !isClosed { onRead(error) }
    }

    func close() {
        guard !isClosed else { return }
        isClosed = true
        source.cancel()
    }
}
#endif
