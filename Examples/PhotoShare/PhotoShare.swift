// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import ExampleSupport
import Foundation

// Shares a folder of albums on one device; another device fetches an album.

let service = AppServiceInfo(name: "photos", appID: "org.example.photoshare")

func app(sharing library: Library) -> RemoteSystemAppRegistration {
    RemoteSystemAppRegistration(
        appID: service.appID,
        displayName: "Photo share",
        services: [
            AppService(service.name) { connection, caller in
                say("connected: \(caller.deviceName)")
                try await connection.respond { request in
                    let (decoder, encoder) = (ValueSetDecoder(), ValueSetEncoder())
                    switch request.message["Type"]?.string {
                    case ListAlbum.type:
                        let call = try decoder.decode(ListAlbum.self, from: request.message)
                        return try encoder.encode(ListAlbum.Response(photos: try library.photos(in: call.album)))
                    case ReadPhoto.type:
                        let call = try decoder.decode(ReadPhoto.self, from: request.message)
                        return ["data": .data(try library.part(call))]
                    default: throw AppServiceError(.invalidMessage, message: "there are list and read")
                    }
                }
            }
        ]
    )
}

func fetch(_ album: String, from name: String, to target: String, in directory: String) async throws {
    try await ExampleDevice.with(directory, app: service.appID) { device in
        let system = try await device.system(named: name, with: [service.appID])
        try FileManager.default.createDirectory(atPath: target, withIntermediateDirectories: true)
        try await device.platform.withAppService(service, on: .init(system)) { connection in
            for photo in try await connection.call(ListAlbum(album: album)).photos {
                guard isName(photo.name) else { throw Problem("a photo there has a name that cannot be one here") }
                var data = Data()
                while case let part = try await connection.call(ReadPhoto(album: album, photo: photo.name, offset: data.count)).data,
                    !part.isEmpty
                {
                    data += part
                    say("\(photo.name): \(data.count) of \(photo.size) bytes")
                }
                try data.write(to: URL(filePath: target).appending(path: photo.name), options: .withoutOverwriting)
            }
        }
        say("fetched \(album)")
    }
}

/// Whether a name of another device is a plain file name and not a path. The check uses bytes, like the file system: for
/// Swift, a slash with a combining mark is a different Character.
func isName(_ name: String) -> Bool {
    let bytes = Array(name.utf8)
    return !bytes.isEmpty && !bytes.contains(UInt8(ascii: "/")) && bytes != Array(".".utf8) && bytes != Array("..".utf8)
        && name.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
}

@main
enum Program {
    static func main() async {
        await run(usage: "PhotoShare DIRECTORY (join NAME | host FOLDER | fetch DEVICE ALBUM TARGET)") { arguments in
            switch arguments.count {
            case 3 where arguments[1] == "join": try await ExampleDevice.join(as: arguments[2], in: arguments[0], app: service.appID)
            case 3 where arguments[1] == "host":
                try await ExampleDevice.host(app(sharing: Library(folder: URL(filePath: arguments[2]))), in: arguments[0])
            case 5 where arguments[1] == "fetch":
                try await fetch(arguments[3], from: arguments[2], to: arguments[4], in: arguments[0])
            default: return false
            }
            return true
        }
    }
}
