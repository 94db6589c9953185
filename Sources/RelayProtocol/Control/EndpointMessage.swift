// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore

/// What an endpoint says to its relay.
package enum EndpointMessage: Hashable, Sendable {
    case hello(Hello)
    case publish(Publish)
    case unpublish(Unpublish)
    case endpointUpdate(EndpointUpdate)
    case endpointApprove(EndpointApprove)
    case endpointRevoke(EndpointRevoke)
    case leaving(Leaving)
    case notificationsRegister(NotificationsRegister)
    case watch(Watch)
    case unwatch(Unwatch)
    case commandSend(CommandSend)
    case commandCancel(CommandCancel)
    case commandReceived(CommandReceived)
    case commandResult(CommandResult)
    case commandAcknowledge(CommandAcknowledge)
    case tunnelOpen(TunnelOpen)
    case tunnelDecline(TunnelDecline)
    case authRefresh(AuthRefresh)

    /// The message in the case.
    package var content: any ControlMessage {
        switch self {
        case .hello(let message): message
        case .publish(let message): message
        case .unpublish(let message): message
        case .endpointUpdate(let message): message
        case .endpointApprove(let message): message
        case .endpointRevoke(let message): message
        case .leaving(let message): message
        case .notificationsRegister(let message): message
        case .watch(let message): message
        case .unwatch(let message): message
        case .commandSend(let message): message
        case .commandCancel(let message): message
        case .commandReceived(let message): message
        case .commandResult(let message): message
        case .commandAcknowledge(let message): message
        case .tunnelOpen(let message): message
        case .tunnelDecline(let message): message
        case .authRefresh(let message): message
        }
    }

    /// The request's number; `nil` for what is not answered by `ok` or `error`.
    package var ref: RequestRef? { (content as? any NumberedControlMessage)?.ref }

    /// `nil` for a type that is not known.
    private init?(type: String, from decoder: any Decoder) throws {
        switch type {
        case Hello.type: self = .hello(try Hello(from: decoder))
        case Publish.type: self = .publish(try Publish(from: decoder))
        case Unpublish.type: self = .unpublish(try Unpublish(from: decoder))
        case EndpointUpdate.type: self = .endpointUpdate(try EndpointUpdate(from: decoder))
        case EndpointApprove.type: self = .endpointApprove(try EndpointApprove(from: decoder))
        case EndpointRevoke.type: self = .endpointRevoke(try EndpointRevoke(from: decoder))
        case Leaving.type: self = .leaving(try Leaving(from: decoder))
        case NotificationsRegister.type: self = .notificationsRegister(try NotificationsRegister(from: decoder))
        case Watch.type: self = .watch(try Watch(from: decoder))
        case Unwatch.type: self = .unwatch(try Unwatch(from: decoder))
        case CommandSend.type: self = .commandSend(try CommandSend(from: decoder))
        case CommandCancel.type: self = .commandCancel(try CommandCancel(from: decoder))
        case CommandReceived.type: self = .commandReceived(try CommandReceived(from: decoder))
        case CommandResult.type: self = .commandResult(try CommandResult(from: decoder))
        case CommandAcknowledge.type: self = .commandAcknowledge(try CommandAcknowledge(from: decoder))
        case TunnelOpen.type: self = .tunnelOpen(try TunnelOpen(from: decoder))
        case TunnelDecline.type: self = .tunnelDecline(try TunnelDecline(from: decoder))
        case AuthRefresh.type: self = .authRefresh(try AuthRefresh(from: decoder))
        default: return nil
        }
    }
}

extension EndpointMessage {
    /// What a frame from an endpoint is to the relay.
    package enum Received: Hashable, Sendable {
        /// A message.
        case message(EndpointMessage)
        /// A request that cannot be served: of an unknown type, malformed, or over a limit. This is the answer.
        case refused(RelayMessage.Failure)
        /// Of an unknown type, and asking for nothing.
        case ignored
    }

    /// Reads a frame.
    /// - Parameter isWelcome: whether the relay has said `welcome`; until then frames are smaller.
    /// - Throws: only what ends the channel.
    package static func decode(
        from frame: ByteBuffer,
        limits: Limits,
        isWelcome: Bool = true
    ) throws(ControlFrameError) -> Received {
        let index = try ControlFrame.index(of: frame, limits: limits, isWelcome: isWelcome)
        if let message = EndpointMessage(frequent: .init(index: index, limits: limits)) { return .message(message) }
        return try ControlFrame.decode(Reader.self, from: index, limits: limits).received
    }

    /// The message as a frame.
    package func encode(limits: Limits = Limits()) throws(ControlFrameError) -> ByteBuffer {
        if let json = frequentJSON { return try ControlFrame.frame(json, limits: limits) }
        return try ControlFrame.encode(Writer(message: self), limits: limits)
    }

    struct Reader: Decodable {
        private static let unanswered: Set<String> = [Hello.type, CommandReceived.type, CommandAcknowledge.type, TunnelDecline.type]

        let received: Received

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: ControlFrameKey.self)
            let type = try container.decode(String.self, forKey: .type)
            // Read leniently: whether a message needs one is for the message to say.
            let ref = (try? container.decodeIfPresent(RequestRef.self, forKey: .ref)) ?? nil
            do {
                if let message = try EndpointMessage(type: type, from: decoder) {
                    self.received = .message(message)
                } else if let ref {
                    self.received = .refused(
                        RelayMessage.Failure(ref: ref, code: .unknownType, message: "this relay does not know this type of request")
                    )
                } else {
                    self.received = .ignored
                }
            } catch {
                // What is no request is not answered, whatever fields it has.
                guard let ref, !Self.unanswered.contains(type) else { throw error }
                switch ControlFrameError(error) {
                case .tooLarge(let exceeded): self.received = .refused(RelayMessage.Failure(ref: ref, exceeding: exceeded))
                case .malformed(let reason):
                    self.received = .refused(RelayMessage.Failure(ref: ref, code: .malformed, message: reason))
                }
            }
        }
    }

    private struct Writer: Encodable {
        let message: EndpointMessage
        func encode(to encoder: any Encoder) throws { try message.content.encodeFrame(to: encoder) }
    }
}
