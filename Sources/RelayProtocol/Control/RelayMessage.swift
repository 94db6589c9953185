// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore

/// What a relay says to an endpoint.
package enum RelayMessage: Hashable, Sendable {
    case challenge(Challenge)
    case welcome(Welcome)
    case rejected(Rejected)
    case ok(OK)
    case failure(Failure)
    case endpointAdded(EndpointAdded)
    case endpointUpdated(EndpointUpdated)
    case endpointRemoved(EndpointRemoved)
    case enumerationCompleted(EnumerationCompleted)
    case notificationsState(NotificationsState)
    case command(Command)
    case commandCancel(CommandCancel)
    case commandSettled(CommandSettled)
    case commandStatus(CommandStatus)
    case tunnelOffer(TunnelOffer)
    case tunnelReady(TunnelReady)
    case tunnelFailed(TunnelFailed)
    case authExpiring(AuthExpiring)
    case authInvalidated(AuthInvalidated)
    case replaced(Replaced)
    case restarting(Restarting)

    /// The message in the case.
    package var content: any ControlMessage {
        switch self {
        case .challenge(let message): message
        case .welcome(let message): message
        case .rejected(let message): message
        case .ok(let message): message
        case .failure(let message): message
        case .endpointAdded(let message): message
        case .endpointUpdated(let message): message
        case .endpointRemoved(let message): message
        case .enumerationCompleted(let message): message
        case .notificationsState(let message): message
        case .command(let message): message
        case .commandCancel(let message): message
        case .commandSettled(let message): message
        case .commandStatus(let message): message
        case .tunnelOffer(let message): message
        case .tunnelReady(let message): message
        case .tunnelFailed(let message): message
        case .authExpiring(let message): message
        case .authInvalidated(let message): message
        case .replaced(let message): message
        case .restarting(let message): message
        }
    }

    /// The request that this answers, for `ok`, `error` and `command.settled`.
    package var ref: RequestRef? { (content as? any NumberedControlMessage)?.ref }

    /// `nil` for a type that is not known.
    private init?(type: String, from decoder: any Decoder) throws {
        switch type {
        case Challenge.type: self = .challenge(try Challenge(from: decoder))
        case Welcome.type: self = .welcome(try Welcome(from: decoder))
        case Rejected.type: self = .rejected(try Rejected(from: decoder))
        case OK.type: self = .ok(try OK(from: decoder))
        case Failure.type: self = .failure(try Failure(from: decoder))
        case EndpointAdded.type: self = .endpointAdded(try EndpointAdded(from: decoder))
        case EndpointUpdated.type: self = .endpointUpdated(try EndpointUpdated(from: decoder))
        case EndpointRemoved.type: self = .endpointRemoved(try EndpointRemoved(from: decoder))
        case EnumerationCompleted.type: self = .enumerationCompleted(try EnumerationCompleted(from: decoder))
        case NotificationsState.type: self = .notificationsState(try NotificationsState(from: decoder))
        case Command.type: self = .command(try Command(from: decoder))
        case CommandCancel.type: self = .commandCancel(try CommandCancel(from: decoder))
        case CommandSettled.type: self = .commandSettled(try CommandSettled(from: decoder))
        case CommandStatus.type: self = .commandStatus(try CommandStatus(from: decoder))
        case TunnelOffer.type: self = .tunnelOffer(try TunnelOffer(from: decoder))
        case TunnelReady.type: self = .tunnelReady(try TunnelReady(from: decoder))
        case TunnelFailed.type: self = .tunnelFailed(try TunnelFailed(from: decoder))
        case AuthExpiring.type: self = .authExpiring(try AuthExpiring(from: decoder))
        case AuthInvalidated.type: self = .authInvalidated(try AuthInvalidated(from: decoder))
        case Replaced.type: self = .replaced(try Replaced(from: decoder))
        case Restarting.type: self = .restarting(try Restarting(from: decoder))
        default: return nil
        }
    }
}

extension RelayMessage {
    /// Reads a frame; `nil` for a message of an unknown type, which is to be ignored.
    /// - Parameter isWelcome: whether `welcome` has arrived; until then, and it too, frames are smaller.
    package static func decode(
        from frame: ByteBuffer,
        limits: Limits,
        isWelcome: Bool = true
    ) throws(ControlFrameError) -> RelayMessage? {
        let index = try ControlFrame.index(of: frame, limits: limits, isWelcome: isWelcome)
        if let message = RelayMessage(frequent: .init(index: index, limits: limits)) { return message }
        return try ControlFrame.decode(Reader.self, from: index, limits: limits).message
    }

    /// The message as a frame.
    package func encode(limits: Limits = Limits()) throws(ControlFrameError) -> ByteBuffer {
        if let json = frequentJSON { return try ControlFrame.frame(json, limits: limits) }
        return try ControlFrame.encode(Writer(message: self), limits: limits)
    }

    struct Reader: Decodable {
        let message: RelayMessage?

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: ControlFrameKey.self)
            self.message = try RelayMessage(type: try container.decode(String.self, forKey: .type), from: decoder)
        }
    }

    private struct Writer: Encodable {
        let message: RelayMessage
        func encode(to encoder: any Encoder) throws { try message.content.encodeFrame(to: encoder) }
    }
}
