export interface paths {
    "/v1/tickets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Lets a page in: a ticket, and the address where it is used, over loopback TCP */
        post: operations["postTickets"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/session": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The session of this request */
        get: operations["getSession"];
        put?: never;
        /** A session in exchange for a ticket, which is used up */
        post: operations["postSession"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Sessions of pages */
        get: operations["getSessions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Ends a session, by its number, or all of a user, by their name; what they are connected by is cut */
        delete: operations["deleteSessionsSession"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/ready": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The labs that come with Vink */
        get: operations["getReady"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/ready/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A lab that comes with Vink, with its text */
        get: operations["getReadyName"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/spec/check": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Reads a lab file's text, and tells what is wrong in it and where */
        post: operations["postSpecCheck"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/spec/format": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** The lab file of a lab */
        post: operations["postSpecFormat"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/views": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What the pages of a lab share: positions, drawings, notes, tasks, and where users are; changed with the role draw */
        get: operations["getLabsLabViews"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/views/save": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Writes a lab's views now, and as JSON */
        post: operations["postLabsLabViewsSave"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/version": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The version, and the control process that answers */
        get: operations["getVersion"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All labs */
        get: operations["getLabs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** How a lab is */
        get: operations["getLabsLab"];
        /** Makes a lab, or changes the one that runs so that it is as asked for */
        put: operations["putLabsLab"];
        post?: never;
        /** Takes a lab down; one that is being made too */
        delete: operations["deleteLabsLab"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/spec": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What runs now, as a lab file has it */
        get: operations["getLabsLabSpec"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/topology": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What its picture is drawn from: nodes, wires, and the numbers of their ends */
        get: operations["getLabsLabTopology"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/clock": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** How a lab's clock is */
        get: operations["getLabsLabClock"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /** Stops a lab's clock, lets it go on, or says how fast it may go */
        patch: operations["patchLabsLabClock"];
        trace?: never;
    };
    "/v1/labs/{lab}/clock/run": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Lets a lab's clock go so far, and answers when it is there */
        post: operations["postLabsLabClockRun"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/restart": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Boots all workers of a lab again, with what should run there */
        post: operations["postLabsLabRestart"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/machines/{machine}/restart": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Boots the worker of a machine again, with all machines of its image */
        post: operations["postLabsLabMachinesMachineRestart"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/machines": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All machines of a lab */
        get: operations["getLabsLabMachines"];
        put?: never;
        /** Makes a machine with its interfaces, and starts its programs */
        post: operations["postLabsLabMachines"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/machines/{machine}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** How a machine is: its interfaces with addresses and counters */
        get: operations["getLabsLabMachinesMachine"];
        put?: never;
        post?: never;
        /** Ends a machine's programs and gives it up */
        delete: operations["deleteLabsLabMachinesMachine"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/machines/{machine}/interfaces": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Gives a machine an interface */
        post: operations["postLabsLabMachinesMachineInterfaces"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/machines/{machine}/interfaces/{interface}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** How an interface is */
        get: operations["getLabsLabMachinesMachineInterfacesInterface"];
        put?: never;
        post?: never;
        /** Takes an interface from a machine */
        delete: operations["deleteLabsLabMachinesMachineInterfacesInterface"];
        options?: never;
        head?: never;
        /** Attaches an interface to a wire, detaches it, or changes its addresses */
        patch: operations["patchLabsLabMachinesMachineInterfacesInterface"];
        trace?: never;
    };
    "/v1/labs/{lab}/wires": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All wires of a lab, without counters */
        get: operations["getLabsLabWires"];
        put?: never;
        /** Makes a wire without ends */
        post: operations["postLabsLabWires"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/wires/{wire}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** How a wire is, with the counters of its ends */
        get: operations["getLabsLabWiresWire"];
        put?: never;
        post?: never;
        /** Gives a wire up; interfaces at it stay, without a carrier */
        delete: operations["deleteLabsLabWiresWire"];
        options?: never;
        head?: never;
        /** Changes what a wire does to packets from now on, or plugs it in or out */
        patch: operations["patchLabsLabWiresWire"];
        trace?: never;
    };
    "/v1/labs/{lab}/programs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Programs that run, those of the lab file, and the last ones that have ended */
        get: operations["getLabsLabPrograms"];
        put?: never;
        /** Starts a program, or has it ready to be started with its terminal */
        post: operations["postLabsLabPrograms"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/programs/{program}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** How a program is: by its number, or its name as machine.name */
        get: operations["getLabsLabProgramsProgram"];
        put?: never;
        post?: never;
        /** Ends a program: a virtualized process by asking it to, any other by SIGKILL */
        delete: operations["deleteLabsLabProgramsProgram"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/programs/{program}/signal": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Sends a signal to a program's process group */
        post: operations["postLabsLabProgramsProgramSignal"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/programs/{program}/input": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Gives an attached program input, as its client does; answers when it is given */
        post: operations["postLabsLabProgramsProgramInput"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/programs/{program}/report": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What a virtualized process has found out so far */
        get: operations["getLabsLabProgramsProgramReport"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/machines/{machine}/relays": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Adds a relay to a machine; answers when it listens */
        post: operations["postLabsLabMachinesMachineRelays"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/relays": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Relays of a lab, with what they have counted */
        get: operations["getLabsLabRelays"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/relays/{relay}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** How a relay is: by its name as machine.name */
        get: operations["getLabsLabRelaysRelay"];
        put?: never;
        post?: never;
        /** Ends a relay and its connections */
        delete: operations["deleteLabsLabRelaysRelay"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/programs/{program}/output": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What a program has written that is not attached; with `follow` until it ends */
        get: operations["getLabsLabProgramsProgramOutput"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/terminals": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Terminals that are kept, the users that look at them, and which has the keyboard */
        get: operations["getLabsLabTerminals"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/programs/{program}/terminal": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Starts a program that was made with `attach`, and carries its input and output; or shows a terminal that is kept */
        get: operations["getLabsLabProgramsProgramTerminal"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/captures": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Captures that go on, and the last ones that have ended */
        get: operations["getLabsLabCaptures"];
        put?: never;
        /** Writes packets to a file from now on, as pcapng, with the role own; without a path the lab keeps them */
        post: operations["postLabsLabCaptures"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/captures/{capture}/packets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Packets of a capture, a line each, also while it goes on */
        get: operations["getLabsLabCapturesCapturePackets"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/captures/{capture}/packets/{packet}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A packet of a capture: its bytes, and what Wireshark's dissectors find in it, where these are installed */
        get: operations["getLabsLabCapturesCapturePacketsPacket"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/captures/{capture}/file": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A capture as pcapng, as far as it is written */
        get: operations["getLabsLabCapturesCaptureFile"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/captures/{capture}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Ends a capture */
        delete: operations["deleteLabsLabCapturesCapture"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/breakpoints": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Breakpoints, what they have counted, and what they have stopped */
        get: operations["getLabsLabBreakpoints"];
        put?: never;
        /** Sets a breakpoint */
        post: operations["postLabsLabBreakpoints"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/breakpoints/{breakpoint}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Removes a breakpoint; what waits because of it goes on */
        delete: operations["deleteLabsLabBreakpointsBreakpoint"];
        options?: never;
        head?: never;
        /** Has a breakpoint do something, or nothing for a while */
        patch: operations["patchLabsLabBreakpointsBreakpoint"];
        trace?: never;
    };
    "/v1/labs/{lab}/breakpoints/{breakpoint}/verdict": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Decides about the packet that has stopped the lab */
        post: operations["postLabsLabBreakpointsBreakpointVerdict"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/pods": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Pods, what they have used and counted, and why some have ended */
        get: operations["getLabsLabPods"];
        put?: never;
        /** Loads a pod, in the place of one of its name */
        post: operations["postLabsLabPods"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/pods/{pod}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A pod */
        get: operations["getLabsLabPodsPod"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/pods/{pod}/revoke": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Ends a pod, and takes back all that it has; it can be loaded again */
        post: operations["postLabsLabPodsPodRevoke"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/paths": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Paths of packets, and what they have used and counted */
        get: operations["getLabsLabPaths"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/paths/{path}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A path */
        get: operations["getLabsLabPathsPath"];
        put?: never;
        post?: never;
        /** Removes a path: its packets take none any more */
        delete: operations["deleteLabsLabPathsPath"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/filters": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Filters in force */
        get: operations["getLabsLabFilters"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/filters/{place}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A filter with its rules as they were given and as the kernel has them, counters and versions */
        get: operations["getLabsLabFiltersPlace"];
        /** Has rules for nft(8) in force at a machine or an interface, in one transaction; or checks them */
        put: operations["putLabsLabFiltersPlace"];
        post?: never;
        /** Removes a filter: its tables go */
        delete: operations["deleteLabsLabFiltersPlace"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/filters/{place}/rollback": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Has an earlier version of a filter in force, as a new version */
        post: operations["postLabsLabFiltersPlaceRollback"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/series": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Time series, and how many rows they have */
        get: operations["getLabsLabSeries"];
        put?: never;
        /** Writes numbers to a file from now on, by the lab's clock or at events */
        post: operations["postLabsLabSeries"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/series/{series}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Ends a time series; its file stays */
        delete: operations["deleteLabsLabSeriesSeries"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/series/{series}/rows": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Rows of a time series, also while it grows */
        get: operations["getLabsLabSeriesSeriesRows"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/series/{series}/file": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The file of a time series, as far as it is written */
        get: operations["getLabsLabSeriesSeriesFile"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/continue": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Lets the lab go on, if a breakpoint has stopped it */
        post: operations["postLabsLabContinue"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/machines/{machine}/continue": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Lets a machine go on that a breakpoint has stopped */
        post: operations["postLabsLabMachinesMachineContinue"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/captures/stream": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Packets as they come, as pcapng */
        get: operations["getLabsLabCapturesStream"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/feed": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Packets, counters and queues as they are now, for a picture of the lab */
        get: operations["getLabsLabFeed"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/samples/stream": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Sockets as they are when the kernel passes its tracepoints */
        get: operations["getLabsLabSamplesStream"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Events from now on */
        get: operations["getEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/statistics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Figures of a lab */
        get: operations["getLabsLabStatistics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/labs/{lab}/statistics/stream": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Figures of a lab at an interval */
        get: operations["getLabsLabStatisticsStream"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Recorded runs: those of this control process's labs, and what was listed since */
        get: operations["getRuns"];
        put?: never;
        /** Lists what was recorded at a path, for all sessions */
        post: operations["postRuns"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{run}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A recorded run, with the topology that its lab was made with */
        get: operations["getRunsRun"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{run}/timeline": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** How much of which kind happened when */
        get: operations["getRunsRunTimeline"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{run}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What happened, packets included, each in a line */
        get: operations["getRunsRunEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{run}/packets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Packets that departed, arrived or were lost, a line each */
        get: operations["getRunsRunPackets"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{run}/packets/{packet}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A packet: its first bytes, and what Wireshark's dissectors find in it, where these are installed */
        get: operations["getRunsRunPacketsPacket"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{run}/next": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The next event of some kinds, or the last one before; a list of one, or empty */
        get: operations["getRunsRunNext"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{run}/state": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What was counted, and which programs ran, at a moment */
        get: operations["getRunsRunState"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{run}/topology": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Machines and wires as they were at a moment, and until when they stay so */
        get: operations["getRunsRunTopology"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{run}/flights": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Packets under way, as frames of the page's picture one behind the other */
        get: operations["getRunsRunFlights"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{run}/views": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Where the users are that look at a run, and at which time of it: as views of a lab, without their document */
        get: operations["getRunsRunViews"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{run}/difference": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Where a run and another one part */
        get: operations["getRunsRunDifference"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{run}/open": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Makes a lab that is as a run was at a moment; answers when it is there */
        post: operations["postRunsRunOpen"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/explored": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What vink explore has found, as far as it was listed */
        get: operations["getExplored"];
        put?: never;
        /** Lists what vink explore has written at a path, for all sessions */
        post: operations["postExplored"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/explored/{explored}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What was explored and found */
        get: operations["getExploredExplored"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/explored/{explored}/run": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The run with a schedule, which is made for this request: what happens in it, and what it breaks */
        get: operations["getExploredExploredRun"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/explored/{explored}/choices": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What comes of a run if one more of its packets has each of the fates: runs that are made for this request */
        get: operations["getExploredExploredChoices"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/explored/{explored}/packets/{packet}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A packet of a run: its bytes, and what Wireshark's dissectors find in it, where these are installed */
        get: operations["getExploredExploredPacketsPacket"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/explored/{explored}/open": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Makes a lab in which packets have the fates of a schedule, as it is at a moment; answers when it is there */
        post: operations["postExploredExploredOpen"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** This description */
        get: operations["getOpenapiJson"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description A ticket: worth one session. */
        Ticket: {
            /** @description The page's address, with the ticket in its fragment, which no browser sends. */
            url: string;
            /** @description The ticket. */
            ticket: string;
            /**
             * Format: uint32
             * @description Seconds that it may be used for.
             */
            seconds: number;
        };
        /** @description `POST /v1/tickets`: lets a page in. */
        NewTicket: {
            /**
             * @description What the page may do.
             * @default own
             */
            role?: components["schemas"]["Role"];
            /** @description The name of its user, for the others. */
            name?: string | null;
            /**
             * Format: uint32
             * @description Seconds that it may be used for, once: 60 otherwise, a day at most.
             */
            seconds?: number | null;
            /**
             * Format: uint16
             * @description The loopback port where pages are answered: any otherwise. It is chosen once.
             */
            port?: number | null;
        };
        /** @description What a client may do. Each one may do what those before it may. */
        Role: "view" | "draw" | "operate" | "own";
        /** @description A session that was just made. */
        NewSession: {
            /** @description What the session's requests bear: `Authorization: Bearer TOKEN`. */
            token: string;
            /** @description What it may do. */
            role: components["schemas"]["Role"];
            /** @description Its user's name. */
            actor: string;
        };
        /** @description `POST /v1/session`: changes a ticket for a session. */
        UseTicket: {
            /** @description The ticket. */
            ticket: string;
        };
        /** @description The session of a request. */
        Session: {
            /** @description What it may do. */
            role: components["schemas"]["Role"];
            /** @description Its user's name. */
            actor: string;
        };
        /** @description A session that is valid. */
        OpenSession: {
            /**
             * Format: uint64
             * @description Its number.
             */
            session: number;
            /** @description Its user's name. */
            actor: string;
            /** @description What it may do. */
            role: components["schemas"]["Role"];
            /**
             * Format: double
             * @description When it began: seconds since 1970.
             */
            since: number;
            /**
             * Format: uint
             * @description How many connections it has now.
             */
            connections: number;
        };
        /** @description `DELETE /v1/sessions/SESSION`: what is not valid any more. */
        Revoked: {
            /**
             * Format: uint
             * @description How many sessions.
             */
            sessions: number;
            /**
             * Format: uint
             * @description How many tickets that were not used yet.
             */
            tickets: number;
        };
        /** @description A lab that comes with Vink. */
        ReadyLab: {
            /** @description Its name. */
            name: string;
            /** @description What it is, in a line. */
            title: string;
            /** @description Its folder, absolute. */
            folder: string;
            /** @description The lab file in it. */
            file: string;
        };
        /** @description A lab that comes with Vink, with its text. */
        ReadyLabFile: {
            /** @description Its name. */
            name: string;
            /** @description Its folder, absolute. */
            folder: string;
            /** @description Its lab file's text. */
            text: string;
        };
        /** @description A lab file that was read. */
        CheckedSpec: {
            /** @description The lab, with all that it generates; none if it can't be used. */
            spec?: components["schemas"]["Lab"] | null;
            /** @description What is wrong, in the order of the text. */
            mistakes: components["schemas"]["Mistake"][];
        };
        /** @description A lab: what `vink lab up` makes and `vink lab save` writes. */
        Lab: {
            /** @description The lab's name: letters, digits, `-`, `_` and `.`; at most 63. None: the file's name without its ending. */
            name?: string;
            /** @description Which clock its machines have. */
            time?: components["schemas"]["Time"];
            /**
             * Format: uint64
             * @description Seed of everything random; none: another one each time.
             */
            seed?: number | null;
            /** @description The kernel's memory for each image, such as 64M or 4G (default 256M). */
            memory?: string | null;
            /** @description How dynamically linked programs make their calls on sockets. */
            calls?: components["schemas"]["Calls"];
            /** @description Further images by name: paths relative to the lab file, or absolute, or names that `vink image list` knows. */
            images?: {
                [key: string]: string;
            };
            /** @description Other computers by name, for machines that say `host`. */
            hosts?: {
                [key: string]: components["schemas"]["HostSpec"];
            };
            /**
             * @description Machines by name.
             * @default {}
             */
            machines?: {
                [key: string]: components["schemas"]["MachineSpec"];
            };
            /** @description Switches by name. No machine has the name of one. */
            switches?: {
                [key: string]: components["schemas"]["SwitchSpec"];
            };
            /** @description Wires by name. One that only an interface names is ideal. */
            wires?: {
                [key: string]: components["schemas"]["WireSpec"];
            };
            /** @description Breakpoints by name, set before programs start. */
            breakpoints?: {
                [key: string]: components["schemas"]["Breakpoint"];
            };
            /** @description Pods by name, loaded before programs start. */
            pods?: {
                [key: string]: components["schemas"]["PodSpec"];
            };
            /** @description Paths of packets through pods, by name. Of several at one place a packet takes the first that it fits. */
            paths?: {
                [key: string]: components["schemas"]["PathSpec"];
            };
            /** @description Time series by name, begun before programs start. */
            series?: {
                [key: string]: components["schemas"]["Series"];
            };
            /** @description What holds in every run whenever all machines wait, by name: `vink explore` checks it. */
            always?: {
                [key: string]: components["schemas"]["Claim"];
            };
            /** @description What holds in every run at some time. */
            eventually?: {
                [key: string]: components["schemas"]["Claim"];
            };
            /** @description What happens while it runs. */
            events?: components["schemas"]["Event"][];
        };
        /** @description The clock of a lab: `real`, `virtual`, or `{scaled: 2}`. */
        Time: components["schemas"]["ClockName"] | components["schemas"]["ClockKind"];
        ClockName: "real" | "virtual";
        ClockKind: {
            virtual: components["schemas"]["Virtual"];
        } | {
            scaled: components["schemas"]["Factor"];
        };
        /** @description What may be said of a virtual clock. */
        Virtual: {
            /** @description Wires may have uplinks, whose packets come when they come: runs are not the same then. */
            uplinks?: boolean;
            /** @description What each system call of a program costs, such as 1us (default: nothing): computing takes no time otherwise. */
            call?: components["schemas"]["Span"] | null;
            /** @description The processor's time stamp counter shows this clock, too. Programs are traced for that, and can't trace each other. */
            rdtsc?: boolean;
        };
        /** @description A length of time: 10ms, 1.5s, 20us, 2min; only 0 needs no unit */
        Span: string | 0;
        /** @description How many times as fast as the host's clock */
        Factor: number;
        /** @description How dynamically linked programs make their calls on sockets (docs/calls.md). All others trap each call. */
        Calls: "auto" | "shared" | "trapped";
        /** @description A computer, and the way to it. */
        HostSpec: {
            /** @description Its name for ssh(1), as in `ssh NAME`: `lab2`, `user@10.0.0.7`, `ssh://user@lab2:2222`. */
            ssh?: string | null;
            /**
             * @description In the place of `ssh`: a program and its arguments, before the words that start `vink` there, such as
             *     [kubectl, exec, -i, POD, --].
             */
            command?: string[];
            /** @description Where vink is there (default: vink, on the path). */
            vink?: string | null;
            /** @description Its address for packets of wires (default: the one that ssh has reached it by). */
            address?: string | null;
            /**
             * Format: uint16
             * @description The first UDP port for wires there: each takes the next one that is free (default: any).
             */
            port?: number | null;
        };
        /** @description A machine: its interfaces, what its kernel is told, and what runs on it. */
        MachineSpec: {
            /** @description Which of the lab's `hosts` it runs on; none: this computer. */
            host?: string | null;
            /** @description Which image it runs: a name of the lab's `images`; none: the one that `vink version` names. */
            image?: string | null;
            /** @description The worker process that it is in: machines of one image and one name share one; none: the lab's own. */
            worker?: string | null;
            /**
             * @description The host's processors on which its worker and its programs stay: a number, or a list. Without `worker`, the
             *     machines with the same `core` share a worker.
             */
            core?: components["schemas"]["Core"] | null;
            /** @description Interfaces by name. `lo` is always there. */
            interfaces?: {
                [key: string]: components["schemas"]["Interface"];
            };
            /** @description Static routes, in the order in which they are added. */
            routes?: components["schemas"]["Route"][];
            /** @description A router: forwards packets between its interfaces, IPv4 and IPv6. */
            forward?: boolean;
            /** @description What its programs may do on it. `setup` has all rights. */
            rights?: components["schemas"]["Rights"];
            /** @description Values below /proc/sys by their names as in sysctl(8): net.ipv4.tcp_congestion_control. */
            sysctls?: {
                [key: string]: components["schemas"]["Scalar"];
            };
            /** @description Files that its programs find, by absolute path. */
            files?: {
                [key: string]: components["schemas"]["FileSpec"];
            };
            /** @description A folder, relative to the lab file and not outside its folder, whose files shadow the host's. */
            root?: string | null;
            /**
             * @description Rules for nft(8) that hold for all of it. The control process loads them before any program
             *     starts; docs/filter.md.
             */
            filter?: components["schemas"]["FileSpec"] | null;
            /** @description Shell commands run one after the other when the machine is there, before its programs; each must succeed. */
            setup?: string[];
            /** @description Programs by name. */
            programs?: {
                [key: string]: components["schemas"]["ProgramSpec"];
            };
            /** @description Relays by name: what comes to an address of the machine goes on to a target, inside the worker; docs/relay.md. */
            relays?: {
                [key: string]: components["schemas"]["RelaySpec"];
            };
        };
        /** @description The processors that a worker and the programs of its machines stay on: `core: 1`, or a list. */
        Core: number | number[];
        /** @description An interface of a machine, at a wire. */
        Interface: {
            /** @description The wire that it is attached to; none: it has no carrier. */
            wire?: string | null;
            /** @description In the place of `wire`: the switch at which it makes a port and an ideal wire to that. */
            switch?: components["schemas"]["AtSwitch"] | null;
            /** @description Addresses with the size of their network, such as 10.0.0.1/24 or fd00::1/64. */
            addresses?: string[];
            /** @description Its Ethernet address; none: one that is made from the names of lab, machine and interface. */
            mac?: string | null;
            /** @description Rules for nft(8) that are about this interface, in which `{{interface}}` is its name. */
            filter?: components["schemas"]["FileSpec"] | null;
        };
        /** @description The switch that an interface is at, by its name, or with what is said of the port. */
        AtSwitch: string | components["schemas"]["PortOf"];
        /** @description A port that an interface makes at a switch. */
        PortOf: {
            /** @description The switch. */
            name: string;
            /** @description Whether the interface's addresses are pinned (default: yes). */
            pin?: boolean | null;
            /**
             * Format: uint16
             * @description The VLAN of frames without a tag (default: 1, if no others are tagged).
             */
            vlan?: number | null;
            /** @description VLANs whose frames have tags. */
            tagged?: number[];
            /** @description The group of ports that it is in, by any name: they have the same addresses and share the flows to them. */
            group?: string | null;
            /** @description Rules for nft(8) at the port, which the machine can't change; docs/filter.md. */
            filter?: components["schemas"]["FileSpec"] | null;
        };
        /** @description What is in a file of a machine, or in a filter. */
        FileSpec: string | {
            /** @description A path relative to the lab file, not outside its folder. */
            from: string;
        };
        /** @description A static route. */
        Route: {
            /** @description Where to: a network, or `default` (of the family of `via`; IPv4 without it). */
            to: string;
            /** @description The next router. */
            via?: string | null;
            /** @description Through which interface. */
            dev?: string | null;
            /**
             * Format: uint32
             * @description Its metric.
             */
            metric?: number | null;
        };
        /** @description What programs may do on their machine (docs/rights.md). */
        Rights: "full" | "user";
        /** @description A value as it is written in YAML: 1 is as good as "1". */
        Scalar: number | string;
        /** @description A program: an unmodified program of the host, or with `app` a virtualized process. */
        ProgramSpec: {
            /** @description A shell command line (`sh -c`), or the program and its arguments as a list. */
            command?: components["schemas"]["Command"] | null;
            /** @description A virtualized process and its arguments, such as `echoserver -p 7`, in the place of `command`. */
            app?: string | null;
            /** @description Environment variables on top of those of `vink lab up`. */
            env?: {
                [key: string]: string;
            };
            /** @description Working directory, relative to the lab file (default: its folder). */
            dir?: string | null;
            /**
             * @description Programs that must be ready first: `name` on the same machine, or `machine.name`. An ended one that
             *     succeeded counts as ready.
             */
            after?: string[];
            /** @description What it is ready by; none: when it has started. */
            ready?: components["schemas"]["Readiness"] | null;
            /** @description Whether it is started again when it ends. */
            restart?: components["schemas"]["Restart"];
        };
        /** @description What is executed. */
        Command: string | string[];
        /** @description When a program counts as ready, and how long that may take. */
        Readiness: components["schemas"]["ReadyBySuccess"] | components["schemas"]["ReadyBy"];
        ReadyBySuccess: "success";
        ReadyBy: {
            /**
             * Format: uint16
             * @description When something on its machine listens on this TCP port; of an app, a UDP socket that is bound to it will do.
             */
            port?: number | null;
            /** @description When this shell command succeeds on its machine; tried again until then. */
            command?: string | null;
            /** @description When it has written this text. */
            output?: string | null;
            /** @description When this long has passed. */
            time?: components["schemas"]["Span"] | null;
            /** @description How long it may take (default: 60s); not for `time`. */
            timeout?: components["schemas"]["Span"] | null;
        };
        /** @description Whether a program is started again. */
        Restart: "never" | "on-failure" | "always";
        /** @description A relay: TCP connections, or UDP's datagrams, that come to an address of the machine go on to a target. */
        RelaySpec: {
            /** @description The protocol. */
            protocol?: components["schemas"]["RelayProtocol"];
            /** @description Where it listens: an address and a port such as 10.0.0.1:80 or [fd00::1]:80, or a port for all addresses. */
            listen: string;
            /** @description The target: an address or a machine's name, and a port. */
            to: string;
            /** @description The path of the lab whose pods what passes goes through. */
            path?: string | null;
        };
        /** @description What a relay passes on. */
        RelayProtocol: "tcp" | "udp";
        /** @description A switch. */
        SwitchSpec: {
            /** @description Which of the lab's `hosts` it runs on; none: this computer. */
            host?: string | null;
            /** @description Which image it runs: a name of the lab's `images`; none: the one that `vink version` names. */
            image?: string | null;
            /** @description The host's processors on which it stays: a number, or a list. */
            core?: components["schemas"]["Core"] | null;
            /** @description Whether it keeps VLANs apart (default: if a port names one). */
            vlan?: boolean | null;
            /** @description Whether it sends what is for a group to members only (default: yes, as soon as a querier is there). */
            "multicast-snooping"?: boolean | null;
            /** @description Rules for nft(8) of all of it, in force before a frame passes; docs/filter.md. */
            filter?: components["schemas"]["FileSpec"] | null;
            /** @description Ports by name, beside those of interfaces that are at this switch. */
            ports?: {
                [key: string]: components["schemas"]["PortSpec"];
            };
        };
        /** @description A port of a switch. */
        PortSpec: {
            /** @description The wire that it is attached to; none: it has no carrier. */
            wire?: string | null;
            /** @description The Ethernet address of what is at the port: frames from another one are dropped. */
            mac?: string | null;
            /** @description Its addresses, or networks of them: packets from others are dropped. */
            addresses?: components["schemas"]["SourceAddress"][];
            /** @description Whether they are pinned (default: if they are given). `true` without any: those of the interface at the wire. */
            pin?: boolean | null;
            /**
             * Format: uint16
             * @description The VLAN of frames without a tag (default: 1, if no others are tagged).
             */
            vlan?: number | null;
            /** @description VLANs whose frames have tags. */
            tagged?: number[];
            /** @description The group of ports that it is in, by any name: they have the same addresses and share the flows to them. */
            group?: string | null;
            /** @description Rules for nft(8), in force before a frame passes the port; docs/filter.md. */
            filter?: components["schemas"]["FileSpec"] | null;
        };
        SourceAddress: string;
        /** @description A wire: what it does to packets, in both directions unless said otherwise. */
        WireSpec: {
            /** @description Bits per second of whole Ethernet frames; packets are sent one at a time. */
            rate?: components["schemas"]["Rate"] | null;
            /** @description How long a packet travels. */
            delay?: components["schemas"]["Span"] | null;
            /** @description The travel time varies by up to this much in either direction, evenly. */
            jitter?: components["schemas"]["Span"] | null;
            /** @description Whether jitter lets packets overtake each other (default: no). */
            overtake?: boolean | null;
            /** @description Share of packets lost, each by itself. */
            loss?: components["schemas"]["Share"] | null;
            /** @description Losses in bursts, in the place of `loss`. */
            burst?: components["schemas"]["Burst"] | null;
            /** @description Share of packets in which one bit is turned. */
            corrupt?: components["schemas"]["Share"] | null;
            /** @description Share of packets that arrive twice. */
            duplicate?: components["schemas"]["Share"] | null;
            /** @description Share of packets that are not delayed, and so overtake others. */
            reorder?: components["schemas"]["Share"] | null;
            /**
             * Format: uint32
             * @description How many packets may be on the way at once; more are lost (default: as many as memory allows).
             */
            limit?: number | null;
            /**
             * Format: uint32
             * @description The largest packet in bytes, without its Ethernet header, and the MTU of interfaces attached (default 1500).
             */
            mtu?: number | null;
            /** @description An Ethernet segment with any number of ends (default: if it has more than two). */
            bus?: boolean | null;
            /** @description Whether it is plugged in (default: yes). */
            up?: boolean | null;
            /** @description What is different for packets that one end sends, by `machine:interface` (`outside` for the uplink). */
            from?: {
                [key: string]: components["schemas"]["Settings"];
            };
            /** @description Joins it to something outside the box. */
            uplink?: components["schemas"]["Uplink"] | null;
        };
        /** @description Bits per second: 10mbit, 1.5gbit, 64kbit; with bps for bit: bytes per second; 0 is unlimited */
        Rate: string | 0;
        /** @description A probability: 1%, 0.5%, or a fraction such as 0.01 */
        Share: string | number;
        /**
         * @description Losses by the model of Gilbert and Elliott: a wire is in a good or in a bad state, and changes between them with
         *     each packet.
         */
        Burst: {
            /** @description Probability of going from good to bad (p). */
            start: components["schemas"]["Share"];
            /** @description Probability of going from bad to good (r). */
            end: components["schemas"]["Share"];
            /**
             * @description Share of packets lost in the bad state (1-h; default 100%).
             * @default 100%
             */
            loss?: components["schemas"]["Share"];
            /**
             * @description Share of packets lost in the good state (1-k; default none).
             * @default 0%
             */
            "good-loss"?: components["schemas"]["Share"];
        };
        /**
         * @description What happens to packets that are sent at one end of a wire. What is not named is ideal; with nothing named the
         *     wire hands packets over whole. See docs/wires.md.
         */
        Settings: {
            /** @description Bits per second of whole Ethernet frames; packets are sent one at a time. */
            rate?: components["schemas"]["Rate"] | null;
            /** @description How long a packet travels. */
            delay?: components["schemas"]["Span"] | null;
            /** @description The travel time varies by up to this much in either direction, evenly. */
            jitter?: components["schemas"]["Span"] | null;
            /** @description Whether jitter lets packets overtake each other (default: no). */
            overtake?: boolean | null;
            /** @description Share of packets lost, each by itself. */
            loss?: components["schemas"]["Share"] | null;
            /** @description Losses in bursts, in the place of `loss`. */
            burst?: components["schemas"]["Burst"] | null;
            /** @description Share of packets in which one bit is turned. */
            corrupt?: components["schemas"]["Share"] | null;
            /** @description Share of packets that arrive twice. */
            duplicate?: components["schemas"]["Share"] | null;
            /** @description Share of packets that are not delayed, and so overtake others. */
            reorder?: components["schemas"]["Share"] | null;
            /**
             * Format: uint32
             * @description How many packets may be on the way at once; more are lost (default: as many as memory allows).
             */
            limit?: number | null;
            /**
             * Format: uint32
             * @description The largest packet in bytes, without its Ethernet header, and the MTU of interfaces attached (default 1500).
             */
            mtu?: number | null;
        };
        /** @description What a wire is joined to outside the box. It has a short form, as in `--uplink`; see [`Uplink::from_str`]. */
        Uplink: {
            passt: {
                /** @description Ports of the host that lead inside: `[ADDRESS:]PORT:PORT[/udp]`. */
                publish?: string[];
            };
        } | {
            tap: string;
        } | {
            interface: string;
        } | {
            qemu: string;
        } | {
            "qemu-connect": string;
        } | {
            "qemu-dgram": string;
        } | {
            "vhost-user": string;
        } | {
            wire: string;
        } | {
            udp: {
                /** @description Where datagrams are received. */
                listen: string;
                /** @description Where they are sent to. */
                peer: string;
            };
        } | {
            share: components["schemas"]["ShareSpec"];
        } | {
            driver: components["schemas"]["Driver"];
        };
        /**
         * @description What a machine is to have of the host's address. In the short form items follow each other with commas:
         *     addresses, ports, `on-demand`, `ephemeral=COUNT`.
         */
        ShareSpec: {
            /** @description Addresses of the host's; none: those that it uses by its default routes. */
            addresses?: string[];
            /** @description Ports at which the machine's programs listen: `80`, `53/udp`. */
            ports?: components["schemas"]["TransportPort"][];
            /** @description Its programs get other ports by binding them; else bind(2) refuses those (`EACCES`). */
            "on-demand"?: boolean;
            /**
             * Format: uint16
             * @description How many ports connections that the machine makes have (default 256).
             */
            ephemeral?: number;
        };
        /** @description A port of TCP, or of UDP: 80, 53/udp */
        TransportPort: string | number;
        /** @description What a driver process opens. */
        Driver: {
            tap: string;
        } | {
            interface: string;
        } | {
            fanout: {
                /** @description Its name. */
                interface: string;
                /**
                 * Format: uint16
                 * @description Drivers with this number share it.
                 */
                group: number;
            };
        } | {
            xdp: {
                /** @description The interface's name. */
                interface: string;
                /**
                 * Format: uint16
                 * @description The queue's number.
                 */
                queue: number;
            };
        };
        /** @description A breakpoint. With no word of what becomes of a packet (`stop` to `run`) the lab stops. */
        Breakpoint: {
            /** @description Where: `machine:interface`, a machine's name (all its interfaces), or a wire's (all its ends); none: everywhere. */
            at?: string | null;
            /** @description What happens to the packet there; none: it departs. */
            on?: components["schemas"]["Points"];
            /** @description Which packets, as in pcap-filter(7); none: all. */
            filter?: string | null;
            /** @description Only TCP segments whose connection on this machine is so: `state = ESTABLISHED and snd_cwnd < 10`. */
            tcp?: string | null;
            /** @description What stops, until it is told to go on. */
            stop?: components["schemas"]["Stop"] | null;
            /** @description An event tells of it. */
            log?: boolean;
            /** @description The packet is lost. */
            drop?: boolean;
            /** @description One bit of it is changed, behind its Ethernet header. */
            corrupt?: boolean;
            /** @description It goes on so much later. */
            delay?: components["schemas"]["Span"] | null;
            /**
             * Format: uint32
             * @description It goes on behind so many later ones that match, but not later than `delay`, or a second, says.
             */
            reorder?: number | null;
            /**
             * Format: uint32
             * @description So many copies go on with it.
             */
            duplicate?: number | null;
            /** @description A line of the switch box; the packet waits until it is carried out. */
            run?: string | null;
            /**
             * Format: uint64
             * @description So many packets are let pass before.
             */
            after?: number;
            /**
             * Format: uint64
             * @description Only so many packets; none: all.
             */
            times?: number | null;
            /** @description It does nothing until it is enabled. */
            disabled?: boolean;
        };
        /** @description One event, or several. */
        Points: components["schemas"]["Point"] | components["schemas"]["Point"][];
        /** @description What happens to a packet at an interface. */
        Point: "departure" | "arrival" | "loss";
        /** @description What stops at a breakpoint. */
        Stop: "all" | "machine";
        /** @description A pod: code on a packet's path, in a protection domain of its own. */
        PodSpec: {
            /** @description A shared object, or a WebAssembly module (`.wasm`), made with vink/pod.h: a path in the lab's folder, or an absolute one. */
            file: string;
            /** @description What protects everything else from it; none: `wasm` for a module, `process` for a shared object. */
            wall?: components["schemas"]["Wall"] | null;
            /** @description What its `pod_init()` gets. */
            config?: string;
            /** @description The memory that it may have, such as 16M (default 64M). */
            memory?: string | null;
            /** @description The time that one crossing may take (default 100ms); then it is ended. */
            time?: components["schemas"]["Span"] | null;
        };
        /** @description What protects everything else from a pod. */
        Wall: "process" | "wasm" | "key" | "none";
        /** @description A path: packets at an interface, or a stream of a machine's virtualized process, and the pods that they go through. */
        PathSpec: {
            /** @description Where packets take it: `machine:interface`. */
            at?: string;
            /** @description In the place of `at`: the machine whose virtualized process (`stream`, `relay`) has its stream take it. */
            stream?: string | null;
            /** @description What happens to the packet there: it departs (default) or arrives. */
            on?: components["schemas"]["PathPoint"] | null;
            /** @description Which packets, as in pcap-filter(7); none: all. */
            filter?: string | null;
            /**
             * Format: uint32
             * @description Only departing packets that have this mark: a rule's `meta mark set`, tc's `skbedit mark`, `SO_MARK`.
             */
            mark?: number | null;
            /** @description The pods, in the order in which a packet meets them. */
            pods: string[];
            /** @description The length of a period of its budget (default 10ms). */
            period?: components["schemas"]["Span"] | null;
            /**
             * Format: uint64
             * @description Cycles of the processor that its packets may take in a period; more wait for the next one. None: any number.
             */
            cycles?: number | null;
            /** @description Bytes of frames that may enter its pods in a period, such as 128K; more wait for the next one. None: any number. */
            bytes?: string | null;
            /**
             * Format: uint32
             * @description Packets that may wait for a period (default 1000); more are lost.
             */
            queue?: number | null;
            /**
             * Format: uint32
             * @description Of several paths with packets, those of the highest class go first.
             */
            class?: number;
            /** @description What becomes of its packets when one of its pods has ended. */
            "on-fault"?: components["schemas"]["OnFault"];
        };
        /** @description Where on its way a packet meets a path. */
        PathPoint: "departure" | "arrival";
        /** @description What becomes of a path's packets when one of its pods has ended. */
        OnFault: "drop" | "pass";
        /** @description Columns of numbers, a row for each time that they are looked at. */
        Series: {
            /** @description How often they are looked at, by the clock of the machines. */
            every?: components["schemas"]["Span"] | null;
            /** @description Or at which event. */
            on?: components["schemas"]["SampleEvent"] | null;
            /** @description Where the event is: a machine, or for packets `machine:interface`; none: anywhere. */
            at?: string | null;
            /**
             * @description What is looked at, by the columns' names.
             * @default {}
             */
            values?: {
                [key: string]: components["schemas"]["Quantity"];
            };
            /**
             * @description The file, in the lab's folder unless its path is absolute; its ending says what it looks like: csv, jsonl, parquet. None: the
             *     series' name with `.csv`.
             */
            file?: string | null;
        };
        /** @description An event at which numbers are looked at. */
        SampleEvent: "departure" | "arrival" | "loss" | "ack" | "retransmit" | "congestion" | "state" | "read" | "end";
        /** @description A number that can be looked at. */
        Quantity: string;
        /** @description All of some comparisons. */
        Claim: string;
        /** @description Switch box lines, carried out when the lab has been up for so long. */
        Event: {
            /** @description How long after the lab is up. */
            at: components["schemas"]["Span"];
            /** @description Again each time this long has passed. */
            every?: components["schemas"]["Span"] | null;
            /** @description A line of the switch box, such as `wire set w1 loss 1%`. */
            do: string;
        };
        /** @description What is wrong in a lab file's text. */
        Mistake: {
            /**
             * Format: uint
             * @description Its line, from 1; 0: nowhere in particular.
             */
            line: number;
            /**
             * Format: uint
             * @description Its column, in characters from 1.
             */
            column: number;
            /**
             * Format: uint
             * @description How many characters of the line are wrong.
             */
            length: number;
            /** @description Where in the lab: `machines.m1.interfaces.eth0.wire`. */
            path: string;
            /** @description What is wrong. */
            message: string;
            /** @description What to write instead. */
            fix: string;
            /** @description The lab can be used all the same. */
            warning: boolean;
        };
        /** @description `POST /v1/spec/check`: what a lab file says, and what is wrong with it. */
        CheckSpec: {
            /** @description Its text, in YAML. */
            text: string;
            /** @description Its folder, absolute; without it, what paths lead to is not looked at. */
            folder?: string | null;
            /** @description Its name, for messages. */
            name?: string | null;
        };
        /** @description A lab file's text. */
        FormattedSpec: {
            /** @description The text, in YAML. */
            text: string;
        };
        /** @description `POST /v1/spec/format`: the lab file of a lab. */
        FormatSpec: {
            /** @description The lab. */
            spec: components["schemas"]["Lab"];
        };
        /** @description `POST /v1/labs/LAB/views/save`: the files that were written. */
        SavedViews: {
            /** @description The document, as Yjs has it. */
            views: string;
            /** @description The same as JSON with sorted keys, for people and version control. */
            json: string;
        };
        /** @description Which control process answers. */
        Version: {
            /** @description Of `vink`. */
            vink: string;
            /**
             * Format: uint32
             * @description The control process.
             */
            pid: number;
            /** @description Its executable, for clients that find that another one is installed by now. */
            executable: string;
        };
        /** @description A lab in a list. */
        LabSummary: {
            /** @description Its name. */
            name: string;
            /** @description How far it is. */
            state: components["schemas"]["LabState"];
            /** @description Its folder. */
            folder: string;
            /**
             * Format: uint
             * @description How many machines it has.
             */
            machines: number;
            /**
             * Format: uint
             * @description How many wires.
             */
            wires: number;
            /**
             * Format: uint
             * @description How many programs run.
             */
            programs: number;
            /**
             * Format: double
             * @description Seconds since it is up; 0 before.
             */
            "up-seconds": number;
            /** @description Where its switch box listens. */
            switchbox?: string | null;
            /** @description The moment of a recorded run that it was opened at; none: it is no such lab. */
            opened?: components["schemas"]["OpenedFrom"] | null;
        };
        /** @description How far a lab is. */
        LabState: "starting" | "running" | "broken" | "failed" | "ending";
        /** @description What of a run a lab is. */
        OpenedFrom: {
            /** @description The run's manifest. */
            path: string;
            /** @description The run, if it is listed. */
            run?: string | null;
            /**
             * Format: uint64
             * @description The moment, ns on its clock.
             */
            nanoseconds: number;
            /**
             * @description It was changed since, or its clock has gone on: it goes its own way, which is recorded as a
             *     run of its own.
             */
            branch: boolean;
        };
        /** @description What [`PutLab`] came to. */
        Applied: {
            /** @description The lab. */
            lab: string;
            /** @description It did not run before. */
            created: boolean;
            /** @description What was changed (or would be), in order; nothing if the lab was as asked for. */
            changes: components["schemas"]["Change"][];
            /** @description Where its switch box listens. */
            switchbox?: string | null;
        };
        /** @description One thing that was changed. */
        Change: {
            /** @description How. */
            kind: components["schemas"]["ChangeKind"];
            /** @description What: `machine m1`, `wire w1`, `interface m1:eth0`, `program m1.web` ... */
            object: string;
            /** @description What about it, in words, if there is more to say. */
            text?: string;
        };
        /** @description How something was changed. */
        ChangeKind: "add" | "change" | "remove";
        /** @description `PUT /v1/labs/NAME`: makes a lab, or changes the one that runs so that it is as asked for. */
        PutLab: {
            /** @description What the lab is to be. */
            spec: components["schemas"]["Lab"];
            /**
             * @description The lab file's folder, absolute: what relative paths of the lab are relative to, and must
             *     stay inside of.
             */
            folder: string;
            /** @description The lab file, absolute: beside it the views of a new lab are kept, as LAB.views.yjs. */
            file?: string | null;
            /**
             * @description Only say what would change.
             * @default false
             */
            "dry-run"?: boolean;
            /**
             * @description Fail (409) if it runs already, and none of its hosts is lost: these come back then.
             * @default false
             */
            new?: boolean;
            /**
             * @description Fail (404) if it does not run yet.
             * @default false
             */
            running?: boolean;
            /**
             * @description When a new lab can't be made, leave what there is of it, to be looked at.
             * @default false
             */
            keep?: boolean;
            /**
             * @description When a new lab is up, its clock stands until it is told to go: only for labs with a clock of
             *     their own.
             * @default false
             */
            paused?: boolean;
            /**
             * @description The environment of its programs.
             * @default {}
             */
            env?: {
                [key: string]: string;
            };
            /**
             * Format: uint16
             * @description Listen for telnet sessions on this loopback port (0: any) for as long as it runs.
             */
            switchbox?: number | null;
            /**
             * @description Write down all that happens in a new lab, from its beginning until it is taken down: see
             *     docs/replay.md.
             */
            record?: components["schemas"]["RecordLab"] | null;
        };
        /** @description Where a lab is recorded. */
        RecordLab: {
            /** @description A new folder, absolute: `manifest.json` and `run.journal` come to be there. */
            folder: string;
            /** @description The lab file, absolute, whose hash the manifest then has. */
            "lab-file"?: string | null;
            /**
             * @description What clients give programs is not recorded, as it was not at first.
             * @default false
             */
            "without-inputs"?: boolean;
        };
        /** @description How a lab is: the summary, and its processes. */
        LabStatus: {
            /** @description What lists show of it. */
            summary: components["schemas"]["LabSummary"];
            /** @description Its other hosts. */
            hosts: components["schemas"]["HostStatus"][];
            /** @description Its workers, one for each image and worker group. */
            workers: components["schemas"]["WorkerStatus"][];
            /** @description Names of programs that were started, and have failed, with the reason. */
            failed: string[];
        };
        /** @description A host of a lab. */
        HostStatus: {
            /** @description Its name. */
            name: string;
            /** @description Whether it is there. */
            state: components["schemas"]["HostState"];
            /** @description The way to it: for ssh, or a command. */
            way: string;
            /** @description Why it is lost. */
            error?: string | null;
            /**
             * Format: uint
             * @description How many machines are on it.
             */
            machines: number;
        };
        /** @description Whether a host is there. */
        HostState: "connecting" | "connected" | "lost";
        /** @description A worker process. */
        WorkerStatus: {
            /** @description Which of the lab's hosts it is on; none: the one of the control process. */
            host?: string | null;
            /** @description The image's name in the lab; none: the usual one. */
            image?: string | null;
            /** @description The worker group of its machines; none: those that name none. */
            worker?: string | null;
            /** @description The processors on which it stays; empty: any. */
            core?: number[];
            /** @description The image's file. */
            path: string;
            /**
             * Format: uint32
             * @description The process, by its number on its host; none: it has died.
             */
            pid?: number | null;
            /** @description The release of its kernel. */
            release: string;
            /**
             * Format: uint
             * @description How many machines it has.
             */
            machines: number;
            /** @description Why it died: a panic with its backtrace, or how the process ended. */
            error?: string | null;
            /**
             * @description For how long its kernel has not returned, and where it was found, if it does not come back
             *     from what it does.
             */
            stuck?: string | null;
        };
        /** @description `GET /v1/labs/LAB/topology`. */
        Topology: {
            /**
             * Format: uint64
             * @description How many changes of the lab this has; the event of each one says the number.
             */
            revision: number;
            /** @description Its machines and switches. */
            nodes: components["schemas"]["TopologyNode"][];
            /** @description Its wires. */
            wires: components["schemas"]["TopologyWire"][];
            /** @description All ends of wires. The place here is the number of the end, for as long as the revision is the same. */
            ends: components["schemas"]["TopologyEnd"][];
        };
        /** @description A machine or a switch. */
        TopologyNode: {
            /** @description Its name. */
            name: string;
            /** @description What it is. */
            kind: components["schemas"]["NodeKind"];
            /** @description Whether it runs. */
            state: components["schemas"]["MachineState"];
        };
        /** @description What a node is. */
        NodeKind: "machine" | "router" | "switch";
        /** @description Whether a machine runs. */
        MachineState: "starting" | "running" | "dead" | "lost";
        /** @description A wire. */
        TopologyWire: {
            /** @description Its name. */
            name: string;
            /** @description Whether it is plugged in. */
            up: boolean;
            /** @description An Ethernet segment with any number of ends. */
            bus: boolean;
            /** @description Its ends, by number. */
            ends: number[];
        };
        /** @description An end of a wire. */
        TopologyEnd: {
            /**
             * Format: uint
             * @description Its node's place in `nodes`; none: outside.
             */
            node?: number | null;
            /** @description Its interface; empty: outside. */
            interface: string;
        };
        /** @description How a lab's clock is. */
        Clock: {
            /** @description Which one it is. */
            time: components["schemas"]["Time"];
            /** @description What it does. */
            state: components["schemas"]["ClockState"];
            /**
             * Format: double
             * @description How long the lab has been up by this clock, in seconds.
             */
            seconds: number;
            /**
             * Format: uint64
             * @description The same in nanoseconds.
             */
            nanoseconds: number;
            /**
             * Format: uint64
             * @description What the kernel's clock is at, in nanoseconds: as packets and captures have it.
             */
            "kernel-nanoseconds": number;
            /** @description It goes on even if no program waits. */
            free: boolean;
            /** @description At most so many times as fast as the host's clock; none: as fast as it can be. */
            speed?: components["schemas"]["Factor"] | null;
        };
        /** @description What a clock does. */
        ClockState: "running" | "standing" | "paused" | "stopped";
        /** @description `PATCH /v1/labs/NAME/clock`: what is not named stays as it is. */
        ChangeClock: {
            /**
             * @description Stop the lab, or let it go on, also if a breakpoint has stopped it. One that lives by the
             *     host's clock is stopped as a breakpoint does it.
             */
            paused?: boolean | null;
            /** @description Go on even if no program waits. */
            free?: boolean | null;
            /** @description The most times as fast as the host's clock that it goes. */
            speed?: components["schemas"]["Speed"] | null;
        };
        /** @description How fast a clock may go. */
        Speed: "max" | {
            factor: components["schemas"]["Factor"];
        };
        /**
         * @description `POST /v1/labs/NAME/clock/run`: lets the clock go until the first of these, or until a
         *     breakpoint stops the lab, and answers then. Even a paused one, which is paused again then. One
         *     of them must be named.
         */
        RunClock: {
            /** @description The lab has been up for so long. */
            until?: components["schemas"]["Span"] | null;
            /** @description So much time has passed. */
            by?: components["schemas"]["Span"] | null;
            /** @description This has happened once. */
            next?: components["schemas"]["Step"] | null;
            /** @description This program has ended: its number, or its name as `machine.name`. */
            ended?: string | null;
            /** @description This program is ready. */
            ready?: string | null;
        };
        /** @description A step of a clock. */
        Step: "event" | "packet" | "call";
        /** @description What was restarted. */
        Restarted: {
            /** @description The machines that have booted again: all of the worker's. */
            machines: string[];
        };
        /** @description A machine in a list. */
        MachineSummary: {
            /** @description Its name. */
            name: string;
            /** @description Whether it runs. */
            state: components["schemas"]["MachineState"];
            /** @description Which of the lab's hosts it is on; none: the one of the control process. */
            host?: string | null;
            /** @description The image's name in the lab; none: the usual one. */
            image?: string | null;
            /** @description The worker that the lab names for it; none: the lab's own, or that of its `core`. */
            worker?: string | null;
            /** @description The processors on which its worker and its programs stay; empty: any. */
            core?: number[];
            /**
             * Format: uint32
             * @description The process of its worker, by its number on its host; none: it has died.
             */
            pid?: number | null;
            /** @description Its interfaces but `lo`, each with the addresses that the lab gave it. */
            interfaces: {
                [key: string]: string[];
            };
            /**
             * Format: uint
             * @description How many programs of it run.
             */
            programs: number;
        };
        /** @description A machine as it is now. */
        Machine: {
            /** @description Its name. */
            name: string;
            /** @description Whether it runs. */
            state: components["schemas"]["MachineState"];
            /** @description Why it does not. */
            error?: string | null;
            /** @description Which of the lab's hosts it is on; none: the one of the control process. */
            host?: string | null;
            /** @description The image's name in the lab; none: the usual one. */
            image?: string | null;
            /** @description Whether it forwards packets. */
            forward: boolean;
            /** @description What its programs may do; none: everything. */
            rights?: components["schemas"]["Rights"];
            /** @description Its interfaces but `lo`. */
            interfaces: components["schemas"]["Interface2"][];
            /** @description Numbers of its programs that run. */
            programs: number[];
        };
        /** @description An interface as its machine has it now. */
        Interface2: {
            /** @description Its name. */
            name: string;
            /** @description The wire that it is attached to. */
            wire?: string | null;
            /** @description Its Ethernet address. */
            mac: string;
            /** @description Whether it is set up. */
            up: boolean;
            /** @description Whether it has a carrier. */
            carrier: boolean;
            /** @description Its addresses now, also those that programs have added. */
            addresses: string[];
            /** @description Packets, bytes, drops and errors by name, such as `rx-packets`. */
            counters: {
                [key: string]: number;
            };
        };
        /** @description A machine to be made, with its interfaces, set-up commands and programs. */
        NewMachine: {
            /** @description Its name. */
            name: string;
            /**
             * @description What it is, as in a lab file.
             * @default {}
             */
            spec?: components["schemas"]["MachineSpec"];
        };
        /** @description An interface to be made. */
        NewInterface: {
            /** @description Its name. */
            name: string;
            /**
             * @description What it is, as in a lab file.
             * @default {}
             */
            spec?: components["schemas"]["Interface"];
        };
        /** @description What is to be different about an interface. What is not named stays. */
        ChangeInterface: {
            /**
             * @description Attach it to this wire. It is made anew for that, with its addresses: routes through it that
             *     the lab does not name are gone.
             */
            wire?: string | null;
            /**
             * @description Detach it from its wire.
             * @default false
             */
            detach?: boolean;
            /** @description Give it these addresses. */
            add?: string[];
            /** @description Take these from it. */
            remove?: string[];
        };
        /** @description A wire as it is now. */
        Wire: {
            /** @description Its name. */
            name: string;
            /** @description An Ethernet segment with any number of ends. */
            bus: boolean;
            /** @description Whether it is plugged in. */
            up: boolean;
            /** @description What it does to packets of every end that `from` does not name. */
            settings: components["schemas"]["Settings"];
            /** @description What is different for packets that one end sends. */
            from: {
                [key: string]: components["schemas"]["Settings"];
            };
            /** @description Its ends. */
            ends: components["schemas"]["WireEnd"][];
            /** @description What it is joined to outside. */
            uplink?: components["schemas"]["Uplink"] | null;
            /** @description What is wrong with that, or with the way to another host. */
            "uplink-error"?: string | null;
            /**
             * Format: uint64
             * @description Of a wire between two hosts: datagrams that were dropped, as neither side had sent them.
             */
            rejected?: number | null;
        };
        /** @description An end of a wire. */
        WireEnd: {
            /** @description `machine:interface`, or `outside`. */
            end: string;
            /**
             * @description What happened to packets that it sent, by name (`sent`, `lost` ...); nothing in lists.
             * @default {}
             */
            counters?: {
                [key: string]: number;
            };
        };
        /** @description A wire to be made. */
        NewWire: {
            /** @description Its name. */
            name: string;
            /**
             * @description What it is, as in a lab file.
             * @default {}
             */
            spec?: components["schemas"]["WireSpec"];
        };
        /** @description What is to be different about a wire. What is not named stays. */
        ChangeWire: {
            /**
             * @description What it is to do to packets; an explicit zero makes a setting ideal again.
             * @default {}
             */
            settings?: components["schemas"]["Settings"];
            /** @description Only to those that this end sends (`machine:interface`, or `outside`). */
            from?: string | null;
            /**
             * @description The settings are all there are: those that are not named become ideal.
             * @default false
             */
            replace?: boolean;
            /** @description Plug it in or out. */
            up?: boolean | null;
        };
        /** @description A program as it is now. */
        Program: {
            /**
             * Format: uint64
             * @description Its number in the lab.
             */
            id: number;
            /** @description On which machine. */
            machine: string;
            /** @description Its name there, if it is of the lab file. */
            name?: string | null;
            /** @description What runs. */
            words: string[];
            /** @description A virtualized process. */
            app: boolean;
            /** @description How far it is. */
            state: components["schemas"]["ProgramState"];
            /**
             * Format: int32
             * @description How it ended: 0 to 255, or 128 + a signal; 126 and 127: it could not be executed.
             */
            code?: number | null;
            /** @description Why it could not be executed, or how it failed. */
            error?: string | null;
            /**
             * Format: uint32
             * @description How often it was started again.
             */
            restarts: number;
            /**
             * Format: double
             * @description Seconds that it has run, or ran.
             */
            seconds: number;
            /** @description What a virtualized process has found out, when it has ended. */
            report?: unknown;
        };
        /** @description How far a program is. */
        ProgramState: "waiting" | "starting" | "running" | "ended";
        /** @description A program to be started. */
        NewProgram: {
            /** @description On which machine. */
            machine: string;
            /** @description The program and its arguments, or a virtualized process and its arguments. */
            words: string[];
            /**
             * @description A virtualized process, which runs inside the worker.
             * @default false
             */
            app?: boolean;
            /** @description Environment variables on top of the lab's. */
            env?: {
                [key: string]: string;
            };
            /**
             * @description Its environment is `env` and nothing else.
             * @default false
             */
            "only-env"?: boolean;
            /** @description Its working directory, absolute or relative to the lab's folder, which it is otherwise. */
            dir?: string | null;
            /**
             * @description Its input and output are those of the client, which starts it by opening `.../terminal`; it
             *     is ended when the client goes away. Otherwise it starts at once, and its output goes to a
             *     log.
             * @default false
             */
            attach?: boolean;
            /**
             * @description With `attach`: it gets the client's input. Otherwise it finds its input at an end.
             * @default false
             */
            input?: boolean;
            /** @description With `attach`: its input and output are a terminal of this size. */
            terminal?: components["schemas"]["Size"] | null;
            /**
             * @description With `attach` and `terminal`: it starts at once, and its terminal is the lab's. Clients come
             *     and go by `.../terminal`, any number of them, and the program stays.
             * @default false
             */
            keep?: boolean;
            /** @description What it may do on the machine; none: what the machine's programs may. */
            rights?: components["schemas"]["Rights"] | null;
        };
        /** @description The size of a terminal in characters. */
        Size: {
            /**
             * Format: uint16
             * @description Lines.
             */
            rows: number;
            /**
             * Format: uint16
             * @description Characters in a line.
             */
            columns: number;
        };
        /** @description A signal for a program's process group. */
        SendSignal: {
            /**
             * Format: int32
             * @description Its number, see signal(7).
             */
            signal: number;
        };
        /** @description What a client gives a program. */
        ProgramInput: {
            text: string;
        } | {
            bytes: number[];
        } | "end" | {
            resize: components["schemas"]["Size"];
        } | {
            /** Format: int32 */
            signal: number;
        } | "hang-up";
        /** @description What a virtualized process has found out so far. */
        Report: {
            /** @description Its words about that. */
            report: unknown;
        };
        /** @description A relay as it is now. */
        Relay: {
            /** @description On which machine. */
            machine: string;
            /** @description Its name there. */
            name: string;
            /** @description What it is, as in a lab file. */
            spec: components["schemas"]["RelaySpec"];
            /** @description How far it is. */
            state: components["schemas"]["ProgramState"];
            /** @description Why it does not run. */
            error?: string | null;
            /** @description How bytes go from one connection to the other. */
            way: string;
            /** @description What it has counted so far, as the report of a virtualized process. */
            report?: unknown;
        };
        /** @description A relay to be added to a machine. */
        NewRelay: {
            /** @description Its name. */
            name: string;
            /** @description What it is, as in a lab file. */
            spec: components["schemas"]["RelaySpec"];
        };
        /** @description A terminal that is kept, and the clients that look at it. */
        KeptTerminal: {
            /**
             * Format: uint64
             * @description The number of its program in the lab.
             */
            program: number;
            /** @description The program's machine. */
            machine: string;
            /** @description What runs there. */
            words: string[];
            /** @description The user that has started it. */
            actor: string;
            /** @description Its size, which is that of the client with the keyboard. */
            size: components["schemas"]["Size"];
            /** @description The users of the clients that look at it, as they came. */
            viewers: string[];
            /** @description The user of the client that has the keyboard, if one has it. */
            keyboard?: string | null;
        };
        /** @description What a client of a program says. */
        FromClient: {
            resize: components["schemas"]["Size"];
        } | {
            /** Format: int32 */
            signal: number;
        } | {
            keyboard: boolean;
        };
        /** @description What a client is told about its program. */
        FromServer: {
            terminal: {
                /** @description Its size. */
                size: components["schemas"]["Size"];
                /** @description The users of the clients that look at it, as they came. */
                viewers: string[];
                /** @description The user of the client that has the keyboard. */
                keyboard?: string | null;
                /** @description This client has it. */
                yours: boolean;
            };
        } | {
            missed: {
                /**
                 * Format: uint64
                 * @description How many bytes.
                 */
                bytes: number;
            };
        } | {
            refused: components["schemas"]["Problem"];
        } | {
            ended: {
                /**
                 * Format: int32
                 * @description 0 to 255, or 128 + a signal; 126 and 127: it could not be executed.
                 */
                code: number;
                /**
                 * @description Why it could not be executed, or how it failed.
                 * @default null
                 */
                error?: string | null;
            };
        };
        /** @description The answer to a request that failed. */
        Problem: {
            /** @description What was tried and what was found. */
            error: string;
            /** @description What to do. */
            hint?: string | null;
            /** @description Where in the request, as JSON pointers (RFC 6901), if that is what is wrong. */
            paths?: string[];
            /** @description What had been changed before, if a change failed half-way. */
            done?: string[];
            /** @description What was not changed for that. */
            "not-done"?: string[];
        };
        /** @description A capture. */
        Capture: {
            /**
             * Format: uint64
             * @description Its number in the lab.
             */
            id: number;
            /** @description Of which interfaces: `machine:interface`. */
            interfaces: string[];
            /** @description Which packets. */
            filter?: string | null;
            /** @description The file; none: they go to a client, or the lab keeps them. */
            path?: string | null;
            /** @description Whether its packets can be asked for. */
            readable: boolean;
            /** @description Whether it goes on. */
            running: boolean;
            /** @description Why it ended by itself. */
            error?: string | null;
            /**
             * Format: uint64
             * @description Packets written, when it has ended.
             */
            written?: number | null;
            /**
             * Format: uint64
             * @description Packets that came faster than they could be written.
             */
            missed?: number | null;
        };
        /** @description A capture to be started. */
        NewCapture: {
            /** @description Of which interfaces: `machine:interface`, all of one worker. */
            interfaces: string[];
            /** @description Which packets, as in pcap-filter(7); none: all. */
            filter?: string | null;
            /**
             * Format: uint32
             * @description Bytes of each packet; 0: all.
             * @default 0
             */
            snap?: number;
            /**
             * @description Where to: the absolute path of a file, which is made, or emptied. Without one the lab keeps the
             *     packets, 64 MiB of them at most.
             */
            path?: string;
        };
        /** @description Packets of a capture. */
        CapturedPackets: {
            /**
             * Format: uint64
             * @description So many packets it has until now.
             */
            total: number;
            /**
             * Format: double
             * @description The date of the first one, in seconds since 1970; 0: there is none yet.
             */
            began: number;
            /** @description Those that were asked for. */
            packets: components["schemas"]["CapturedPacket"][];
        };
        /** @description A packet of a capture or of a recorded run, in a line. */
        CapturedPacket: {
            /**
             * Format: uint64
             * @description Its number, from 0 on; in a run its place in the journal.
             */
            number: number;
            /**
             * Format: int64
             * @description How long after the capture's first one; in a run on its clock.
             */
            nanoseconds: number;
            /** @description Where: `machine:interface`. */
            end: string;
            /** @description `departure`, `arrival` or `loss`. */
            what: string;
            /** @description Why it was lost, in the kernel's words. */
            reason?: string | null;
            /**
             * Format: uint32
             * @description Its length in bytes.
             */
            length: number;
            /** @description In the manner of tcpdump(8). */
            summary: string;
        };
        /** @description All that is known of a packet. */
        PacketDetail: {
            /** @description What lists show of it. */
            packet: components["schemas"]["CapturedPacket"];
            /** @description The bytes that were kept, in hexadecimal. */
            bytes: string;
            /** @description What Wireshark's dissectors find in it; none: `undissected` says why. */
            fields?: components["schemas"]["PacketField"][] | null;
            /** @description Why there are no fields. */
            undissected?: string | null;
        };
        /** @description A part of a packet, as Wireshark shows it. */
        PacketField: {
            /** @description What it says. */
            text: string;
            /** @description A display filter that it fits. */
            filter?: string | null;
            /**
             * Format: uint32
             * @description Where it is in the packet's bytes, and how many bytes it has; both 0: it has none.
             * @default 0
             */
            start?: number;
            /**
             * Format: uint32
             * @description How many bytes it has.
             * @default 0
             */
            length?: number;
            /** @description Its parts. */
            fields?: components["schemas"]["PacketField"][];
        };
        /** @description All breakpoints of a lab. */
        Breakpoints: {
            /** @description In the order in which they were set. */
            breakpoints: components["schemas"]["Breakpoint2"][];
            /** @description One has stopped all of the lab. */
            stopped: boolean;
            /** @description Machines that one has stopped. */
            machines: string[];
        };
        /** @description A breakpoint. */
        Breakpoint2: {
            /** @description Its name. */
            name: string;
            /** @description As in a lab file. */
            spec: components["schemas"]["Breakpoint"];
            /**
             * Format: uint64
             * @description Packets that it was about.
             */
            seen: number;
            /**
             * Format: uint64
             * @description Packets that it has done something to.
             */
            hits: number;
        };
        /** @description A breakpoint to be set. */
        NewBreakpoint: {
            /** @description Its name; none: a number that none has. */
            name?: string | null;
            /** @description As in a lab file. */
            spec: components["schemas"]["Breakpoint"];
        };
        /** @description A breakpoint is to do something, or nothing for a while. */
        ChangeBreakpoint: {
            /** @description To do something. */
            enabled: boolean;
        };
        /**
         * @description What becomes of the packet at which a breakpoint has stopped the lab, when it goes on: beside
         *     what breakpoints do to it. What is not named is not done.
         */
        PacketVerdict: {
            /**
             * Format: uint64
             * @description Of which hit: how often the breakpoint was met by then.
             */
            number: number;
            /**
             * @description It is lost.
             * @default false
             */
            drop?: boolean;
            /** @description It passes so much later. */
            delay?: components["schemas"]["Span"] | null;
            /** @description These bytes pass in its place: from the Ethernet header on, two hexadecimal digits each. */
            frame?: string | null;
        };
        /** @description A pod. */
        Pod: {
            /** @description Its name. */
            name: string;
            /** @description As in a lab file. */
            spec: components["schemas"]["PodSpec"];
            /** @description Its wall. */
            wall: string;
            /** @description Why it has ended; none: it has not. */
            ended?: string | null;
            /**
             * Format: uint64
             * @description Bytes of memory that it has.
             */
            memory: number;
            /**
             * Format: uint64
             * @description How often its wall was crossed.
             */
            crossings: number;
            /**
             * Format: uint64
             * @description Calls of its functions.
             */
            calls: number;
            /**
             * Format: uint64
             * @description Cycles of the processor (its time stamp counter's) that the crossings have taken.
             */
            cycles: number;
            /** @description What `vink_count()` has counted. */
            counters: number[];
            /** @description The last lines of its log. */
            log: string[];
        };
        /** @description A pod to be loaded. */
        NewPod: {
            /** @description Its name. If there is one of this name, paths go on through the new one. */
            name: string;
            /** @description As in a lab file; none: as it is in the lab. */
            spec?: components["schemas"]["PodSpec"] | null;
        };
        /** @description A path. */
        PacketPath: {
            /** @description Its name. */
            name: string;
            /** @description As in a lab file. */
            spec: components["schemas"]["PathSpec"];
            /** @description The pod of it that has ended; none: it works. */
            ended?: string | null;
            /**
             * @description What it has counted, by name: `packets` and `bytes` that have come; `crossings` of pods'
             *     walls and their `cycles`; frames that have `passed`, of which pods have `changed` and
             *     `emitted` some; `dropped` by a pod; `waited` for another period, `waiting` now; `overdrafts`
             *     of the budget; `lost` for want of room or of a pod.
             */
            numbers: {
                [key: string]: number;
            };
        };
        /** @description A filter that is in force, or would be. */
        Filter: {
            /** @description A machine, or `machine:interface`. */
            place: string;
            /**
             * Format: uint64
             * @description Counted from 1, for each place.
             */
            version: number;
            /** @description The file that it is from. */
            file?: string | null;
            /** @description The tables that it declares. */
            tables: components["schemas"]["RulesetTable"][];
            /** @description nft has made sets and maps of rules that are alike (`nft --optimize`). */
            optimized: boolean;
            /**
             * Format: double
             * @description When it was loaded, in seconds since 1970.
             */
            time: number;
        };
        /** @description A table of nft(8). */
        RulesetTable: {
            /** @description Its family, such as `inet`. */
            family: string;
            /** @description Its name. */
            name: string;
        };
        /** @description A filter with its rules. */
        FilterRules: {
            /** @description A machine, or `machine:interface`. */
            place: string;
            /**
             * Format: uint64
             * @description Counted from 1, for each place.
             */
            version: number;
            /** @description The file that it is from. */
            file?: string | null;
            /** @description The tables that it declares. */
            tables: components["schemas"]["RulesetTable"][];
            /** @description nft has made sets and maps of rules that are alike (`nft --optimize`). */
            optimized: boolean;
            /**
             * Format: double
             * @description When it was loaded, in seconds since 1970.
             */
            time: number;
            /** @description As it was given. */
            text: string;
            /** @description What the kernel has, as `nft list table` prints it. */
            listing: string;
            /** @description What its rules and named counters have counted. */
            counters: components["schemas"]["FilterCounter"][];
            /** @description Versions that can be returned to, oldest first. */
            versions: components["schemas"]["FilterVersion"][];
        };
        /** @description A rule that counts, or a named counter. */
        FilterCounter: {
            /** @description Its table. */
            table: components["schemas"]["RulesetTable"];
            /** @description The rule's chain; none: a named counter. */
            chain?: string | null;
            /** @description The rule without its counter, or the counter's name. */
            rule: string;
            /**
             * Format: uint64
             * @description Packets since the version was loaded.
             */
            packets: number;
            /**
             * Format: uint64
             * @description Their bytes, from the network header on.
             */
            bytes: number;
        };
        /** @description A version of a filter. */
        FilterVersion: {
            /**
             * Format: uint64
             * @description Its number.
             */
            version: number;
            /** @description The file that it was from. */
            file?: string | null;
            /**
             * Format: double
             * @description When it was loaded, in seconds since 1970.
             */
            time: number;
            /** @description As it was given. */
            text: string;
        };
        /** @description Rules for a place: a machine, or `machine:interface`. */
        NewFilter: {
            /** @description In the language of nft(8). */
            text: string;
            /** @description The file that they are from, for messages. */
            file?: string | null;
            /** @description They are checked by the kernel, and nothing is changed. */
            check?: boolean;
        };
        /** @description To an earlier version. */
        Rollback: {
            /**
             * Format: uint64
             * @description Which; none: the one before the one in force.
             */
            version?: number | null;
        };
        /** @description A time series. */
        Series2: {
            /** @description Its name. */
            name: string;
            /** @description As in a lab file. */
            spec: components["schemas"]["Series"];
            /** @description Its file. */
            path: string;
            /**
             * Format: uint64
             * @description Rows that it has.
             */
            rows: number;
            /**
             * Format: uint64
             * @description Events that came faster than they could be kept.
             */
            missed: number;
            /** @description Why it has no more of them. */
            error?: string | null;
        };
        /** @description A time series to be begun. */
        NewSeries: {
            /** @description Its name. */
            name: string;
            /** @description As in a lab file. */
            spec: components["schemas"]["Series"];
        };
        /** @description Rows of a time series. */
        SeriesRows: {
            /** @description The columns' names, the time first. */
            columns: string[];
            /**
             * @description Their numbers, by row. Of a part of the time that has more rows than are given, there are two:
             *     with the least and the greatest number of each column, in the order in which they came.
             */
            rows: (number | null)[][];
            /**
             * Format: uint64
             * @description So many rows these stand for.
             */
            "stands-for": number;
            /** @description There are more rows after the last one: ask from its time on. */
            more: boolean;
        };
        /** @description What a viewer says. */
        FromViewer: {
            subscribe: components["schemas"]["FeedSubscription"];
        } | {
            /** Format: uint32 */
            ack: number;
        };
        /** @description What a viewer wants to see. */
        FeedSubscription: {
            /**
             * @description Filters as in pcap-filter(7), 32 at most, of 1,000 characters each. A flight's class is the
             *     place of the first one that it fits, from 1 on; 0: it fits none. They see the first 256 bytes
             *     of a packet.
             * @default []
             */
            classes?: string[];
            /** @description Counters and queues of all ends, and the time; none: they are not told. */
            overview?: components["schemas"]["FeedOverview"] | null;
            /** @description Packets one by one; none: they are not told. */
            detail?: components["schemas"]["FeedDetail"] | null;
            /** @description A filter: its packets are told beside the budget. */
            follow?: string | null;
            /**
             * Format: uint32
             * @description A flow, by its number in records: its packets are told beside the budget, too.
             */
            flow?: number | null;
        };
        /** @description How often counters are told. */
        FeedOverview: {
            /**
             * Format: uint32
             * @description Times a second by the host's clock, 1 to 10.
             */
            hz: number;
        };
        /** @description Which packets are told one by one. */
        FeedDetail: {
            /**
             * @description Those that these ends send, 400 at most: `machine:interface`, or `:WIRE` for what comes over
             *     that wire from outside; none: all ends.
             */
            ends?: string[] | null;
            /**
             * Format: uint32
             * @description So many a second by the host's clock, 1 to 200,000. If there are more, one of so many is
             *     told, the same ones on each hop.
             */
            budget: number;
        };
        /** @description What a viewer is told beside frames. */
        ToViewer: "subscribed" | {
            refused: components["schemas"]["Problem"];
        };
        /** @description Something that happened. */
        Event2: {
            /** @description In which lab. */
            lab: string;
            /**
             * Format: double
             * @description Seconds since 1970.
             */
            time: number;
            /** @description The user by whose request; none: it happened by itself. */
            actor?: string | null;
        } & ({
            /** @constant */
            kind: "progress";
            /** @description What is done now: `machines`, `programs` ... */
            step: string;
            /**
             * Format: uint
             * @description How many are done.
             */
            done: number;
            /**
             * Format: uint
             * @description Of how many.
             */
            total: number;
        } | {
            /** @constant */
            kind: "lab";
            /** @description Which. */
            state: components["schemas"]["LabState"];
        } | {
            /** @constant */
            kind: "asked";
            /** @description `POST` and so on. */
            method: string;
            /** @description With everything from `/v1` on. */
            path: string;
            /** @description JSON; none if it is long. */
            body?: string | null;
        } | {
            /** @constant */
            kind: "changed";
            /** @description What. */
            change: components["schemas"]["Change"];
            /**
             * Format: uint64
             * @description How many changes of the lab there were by now.
             */
            revision: number;
        } | {
            /** @constant */
            kind: "clock";
            /** @description How it is now. */
            clock: components["schemas"]["Clock"];
        } | {
            /** @constant */
            kind: "started";
            /**
             * Format: uint64
             * @description Its number.
             */
            program: number;
            /** @description Its machine. */
            machine: string;
            /** @description Its name, if it has one. */
            name?: string | null;
        } | {
            /** @constant */
            kind: "ready";
            /**
             * Format: uint64
             * @description Its number.
             */
            program: number;
            /** @description Its machine. */
            machine: string;
            /** @description Its name, if it has one. */
            name?: string | null;
        } | {
            /** @constant */
            kind: "ended";
            /**
             * Format: uint64
             * @description Its number.
             */
            program: number;
            /** @description Its machine. */
            machine: string;
            /** @description Its name, if it has one. */
            name?: string | null;
            /**
             * Format: int32
             * @description 0 to 255, or 128 + a signal.
             */
            code: number;
            /** @description Why it could not be executed, or how it failed. */
            error?: string | null;
        } | {
            /** @constant */
            kind: "terminal";
            /**
             * Format: uint64
             * @description The number of its program.
             */
            program: number;
            /** @description Its machine. */
            machine: string;
            /**
             * Format: uint
             * @description How many clients look at it.
             */
            viewers: number;
            /** @description The user of the client that has the keyboard. */
            keyboard?: string | null;
        } | {
            /** @constant */
            kind: "wire";
            /** @description Which. */
            wire: string;
            /** @description Of this end only. */
            from?: string | null;
            /** @description All of them. */
            settings: components["schemas"]["Settings"];
            /** @description Whether it is plugged in. */
            up: boolean;
        } | {
            /** @constant */
            kind: "uplink";
            /** @description The wire. */
            wire: string;
            /** @description What is wrong; none: nothing any more. */
            error?: string | null;
        } | {
            /** @constant */
            kind: "timed";
            /** @description Its line. */
            line: string;
            /** @description How it failed. */
            error?: string | null;
        } | {
            /** @constant */
            kind: "dead";
            /** @description The machines. */
            machines: string[];
            /** @description Why. */
            message: string;
            /** @description Symbols, innermost first. */
            backtrace: string[];
            /** @description The end of the kernel's log. */
            log: string;
        } | {
            /** @constant */
            kind: "host";
            /** @description Its name. */
            host: string;
            /** @description Whether it is there. */
            state: components["schemas"]["HostState"];
            /** @description Why it is lost. */
            error?: string | null;
        } | {
            /** @constant */
            kind: "kernel";
            /**
             * Format: uint
             * @description The worker's place in the lab's list.
             */
            worker: number;
            /**
             * Format: uint32
             * @description Its process.
             */
            pid: number;
            /** @description For how long, with a backtrace; or that it has. */
            message: string;
        } | {
            /** @constant */
            kind: "log";
            /** @description The image's name. */
            image?: string | null;
            /** @description The line. */
            line: string;
        } | {
            /** @constant */
            kind: "capture-ended";
            /**
             * Format: uint64
             * @description Its number.
             */
            capture: number;
            /** @description Why. */
            error: string;
        } | components["schemas"]["Packet"] | {
            /** @constant */
            kind: "breakpoint";
            /** @description Its name. */
            breakpoint: string;
            /**
             * Format: uint64
             * @description How often it was met by now.
             */
            number: number;
            /** @description By which packet. */
            packet: components["schemas"]["Packet"];
            /** @description What has stopped. */
            stopped?: components["schemas"]["Stop"] | null;
            /**
             * @description The packet's bytes from its Ethernet header on, two hexadecimal digits each: if all of
             *     the lab has stopped before it passes.
             */
            frame?: string | null;
        } | {
            /** @constant */
            kind: "pod-ended";
            /** @description Its name. */
            pod: string;
            /** @description The path whose packets it had then; none: of no path. */
            path?: string | null;
            /** @description What it did. */
            fault: string;
        } | {
            /** @constant */
            kind: "pod-log";
            /** @description Its name. */
            pod: string;
            /** @description The line. */
            line: string;
        } | {
            /** @constant */
            kind: "missed";
            /**
             * Format: uint64
             * @description How many are not told.
             */
            events: number;
        });
        /** @description What happened to a packet. */
        Packet: {
            /**
             * Format: uint64
             * @description Nanoseconds of the kernel's clock.
             */
            nanoseconds: number;
            /** @description `machine:interface`. */
            end: string;
            /** @description `departure`, `arrival` or `loss`. */
            what: string;
            /** @description Why it was lost. */
            reason?: string | null;
            /**
             * Format: uint32
             * @description Bytes, with its Ethernet header.
             */
            length: number;
            /** @description A line such as tcpdump's about it. */
            summary: string;
        };
        /** @description How much was done so far. */
        Statistics: {
            /**
             * Format: double
             * @description Seconds since 1970.
             */
            time: number;
            /** @description Of its workers. */
            workers: components["schemas"]["WorkerStatistics"][];
            /** @description Of its wires. */
            wires: components["schemas"]["WireStatistics"][];
        };
        /** @description Figures of a worker. */
        WorkerStatistics: {
            /** @description The image's name in the lab; none: the usual one. */
            image?: string | null;
            /**
             * Format: uint64
             * @description Resident memory in bytes.
             */
            resident: number;
            /** @description The kernel's counters by name. */
            counters: {
                [key: string]: number;
            };
        };
        /** @description Figures of a wire. */
        WireStatistics: {
            /** @description Its name. */
            wire: string;
            /** @description Of packets that its ends sent. */
            ends: components["schemas"]["EndStatistics"][];
        };
        /** @description Figures of one direction of a wire. */
        EndStatistics: {
            /** @description `machine:interface`, or `outside`. */
            end: string;
            /** @description By name: `sent`, `lost` ... */
            counters: {
                [key: string]: number;
            };
        };
        /** @description A recorded run in a list. */
        RunSummary: {
            /** @description By this it is asked for. */
            id: string;
            /** @description The lab; the program, if it was one by itself. */
            lab: string;
            /** @description The manifest. */
            path: string;
            /**
             * Format: double
             * @description The date at which its clock was at 0, in seconds since 1970.
             */
            began: number;
            /**
             * Format: uint64
             * @description How long it is on its own clock; none: it goes on, or was cut short.
             */
            nanoseconds?: number | null;
            /** @description Why its moments can't be opened as labs; none: they can. */
            "only-history"?: string | null;
            /** @description The moment of another run from which it went its own way. */
            parent?: components["schemas"]["RunPoint"] | null;
        };
        /** @description A moment of a run. */
        RunPoint: {
            /** @description The run's manifest. */
            path: string;
            /** @description The run, if it is listed. */
            run?: string | null;
            /**
             * Format: uint64
             * @description When, on its clock.
             */
            nanoseconds: number;
        };
        /** @description `POST /v1/runs`: lists what was recorded there, from now on. */
        NewRun: {
            /** @description A manifest, the folder that a lab was recorded to, or a folder that has some of these; absolute. */
            path: string;
        };
        /** @description A recorded run. */
        Run: {
            /** @description What lists show of it. */
            summary: components["schemas"]["RunSummary"];
            /** @description The lab as it was made, with the ends of all flights of the run. */
            topology: components["schemas"]["Topology"];
            /**
             * Format: uint64
             * @description How often machines or wires have changed since; none: it was not recorded.
             */
            changes?: number | null;
            /**
             * Format: uint64
             * @description How long it is, as far as its journal is whole.
             */
            nanoseconds: number;
            /** @description The journal has no end: the run goes on, or was cut short. */
            cut: boolean;
            /**
             * Format: uint64
             * @description How many records the journal has.
             */
            records: number;
            /**
             * Format: uint64
             * @description How many departures, arrivals and losses of packets.
             */
            packets: number;
            /**
             * Format: uint64
             * @description How many calls.
             */
            calls: number;
            /**
             * Format: uint64
             * @description Packets that were not seen, since too many came at once.
             */
            missed: number;
            /** @description What is counted in timelines: `classes` of packets that depart, then everything else. */
            kinds: string[];
            /**
             * Format: uint
             * @description How many of the kinds are classes of packets.
             */
            classes: number;
        };
        /** @description How much happened over a span of time. */
        RunTimeline: {
            /**
             * Format: uint64
             * @description When the first bin begins, ns.
             */
            from: number;
            /**
             * Format: uint64
             * @description How long each is, ns.
             */
            width: number;
            /**
             * Format: uint64
             * @description How many there are.
             */
            bins: number;
            /** @description Of the kinds that there are in this span. */
            rows: components["schemas"]["TimelineRow"][];
        };
        /** @description How much of one kind happened in each bin. */
        TimelineRow: {
            /**
             * @description A class of packets, or `loss`, `breakpoint`, `request`, `line`, `program`, `call`, `clock`,
             *     `drop`, `change`.
             */
            kind: string;
            /** @description For each bin. */
            counts: number[];
        };
        /** @description Something that happened in a run. */
        RunEvent: {
            /**
             * Format: uint64
             * @description Its place in the journal, from 0.
             */
            number: number;
            /**
             * Format: uint64
             * @description When, on the run's clock.
             */
            nanoseconds: number;
            /** @description A kind as timelines have them, or `arrival`, `thread`, `output`. */
            kind: string;
            /** @description In one line. */
            text: string;
            /** @description The interface where it happened, as `machine:interface`. */
            end?: string | null;
        };
        /** @description How a run was at a moment, at the end of what happened then. */
        RunState: {
            /**
             * Format: uint64
             * @description When, on the run's clock.
             */
            nanoseconds: number;
            /**
             * Format: uint64
             * @description How many records there were.
             */
            records: number;
            /**
             * Format: uint64
             * @description How many changes users had asked for.
             */
            revision: number;
            /**
             * Format: uint64
             * @description Packets under way.
             */
            "under-way": number;
            /** @description What interfaces had counted. */
            ends: components["schemas"]["RunEnd"][];
            /** @description Programs that ran. */
            programs: components["schemas"]["RunProgram"][];
        };
        /** @description What an interface had counted. */
        RunEnd: {
            /** @description `machine:interface`. */
            end: string;
            /**
             * Format: uint64
             * @description Packets that departed.
             */
            sent: number;
            /**
             * Format: uint64
             * @description Their bytes.
             */
            "sent-bytes": number;
            /**
             * Format: uint64
             * @description Packets that arrived.
             */
            received: number;
            /**
             * Format: uint64
             * @description Their bytes.
             */
            "received-bytes": number;
            /**
             * Format: uint64
             * @description Packets that were lost here: by the wire, or a full queue.
             */
            lost: number;
        };
        /** @description A program that ran. */
        RunProgram: {
            /**
             * Format: uint64
             * @description Its number in the run.
             */
            program: number;
            /** @description Where. */
            machine: string;
            /** @description The first of its words. */
            name: string;
            /**
             * Format: uint64
             * @description Since when, ns.
             */
            started: number;
        };
        /** @description A run's machines and wires at a moment, at the end of what happened then. */
        RunTopology: {
            /**
             * Format: uint64
             * @description When, on the run's clock.
             */
            nanoseconds: number;
            /**
             * Format: uint64
             * @description How often machines or wires had changed.
             */
            changes: number;
            /**
             * Format: uint64
             * @description Since when they are as they were then, ns.
             */
            since: number;
            /**
             * Format: uint64
             * @description When the next change is, ns; none: there is none.
             */
            until?: number | null;
            /**
             * @description Those that were there. Ends have the numbers that flights have, at any time: an end that was
             *     not there has no node, and belongs to no wire.
             */
            topology: components["schemas"]["Topology"];
            /** @description Addresses of interfaces that had some, by `machine:interface`, with the size of their network. */
            addresses: {
                [key: string]: string[];
            };
            /** @description What wires did to packets, by name. A wire that is not here was ideal. */
            settings: {
                [key: string]: components["schemas"]["RunWire"];
            };
        };
        /** @description What a wire did to packets. */
        RunWire: {
            /** @description To those of any end. */
            settings: components["schemas"]["Settings"];
            /** @description What was different for those that this end sent, such as `r1:eth0` or `outside`. */
            from?: {
                [key: string]: components["schemas"]["Settings"];
            };
        };
        /** @description Where two runs part. */
        RunDifference: {
            /** @description They do not. */
            same: boolean;
            /** @description When the first event that differs happened in either run, ns; none: it has no such event. */
            nanoseconds: (number | null)[];
            /** @description As `vink lab diff` tells it. */
            text: string;
        };
        /** @description A lab that is as a run was. */
        OpenedRun: {
            /** @description The lab. */
            lab: string;
            /**
             * Format: uint64
             * @description The moment where it stands.
             */
            nanoseconds: number;
            /**
             * Format: uint64
             * @description Keyframes at which it was found to be as the run.
             */
            checked: number;
        };
        /** @description `POST /v1/runs/RUN/open`: makes a lab that is as the run was at a moment. */
        OpenRun: {
            /**
             * Format: uint64
             * @description When, ns on the run's clock. A moment before the lab was up is that at which it was.
             */
            at: number;
            /** @description The lab's name; `LAB-at-12.5s` if left away. */
            name?: string | null;
            /**
             * @description Though the image, the lab file or programs are not what they were.
             * @default false
             */
            anyway?: boolean;
        };
        /** @description What `vink explore` has found, in a list. */
        ExploredSummary: {
            /** @description By this it is asked for. */
            id: string;
            /** @description The lab. */
            lab: string;
            /** @description The folder. */
            path: string;
            /** @description The image that was explored. */
            image: string;
            /** @description What was found. */
            violation: components["schemas"]["ExploredViolation"];
            /** @description The schedule that breaks it. */
            schedule: components["schemas"]["ExploredDeviation"][];
        };
        /** @description A property that a run breaks. */
        ExploredViolation: {
            /** @description Its name. */
            property: string;
            /** @description What it says, with an RFC or as in the lab file. */
            says: string;
            /**
             * Format: uint64
             * @description When, ns on the run's clock.
             */
            nanoseconds: number;
            /** @description Where; empty: at no machine. */
            machine: string;
            /** @description What went wrong. */
            what: string;
        };
        /** @description A packet with another fate. */
        ExploredDeviation: {
            /** @description As a schedule has it: `alice:eth0 1 behind`. */
            words: string;
            /** @description In a sentence. */
            says: string;
        };
        /** @description `POST /v1/explored`: lists what `vink explore` has written there, from now on. */
        NewExplored: {
            /** @description The folder of what was found, or one that has some of these, such as `LAB.explored`; absolute. */
            path: string;
        };
        /** @description What was explored. */
        Explored: {
            /** @description What lists show of it. */
            summary: components["schemas"]["ExploredSummary"];
            /** @description The lab's machines. */
            machines: string[];
            /** @description The fates that are tried, the gravest first. */
            fates: string[];
            /** @description What was explored; of a difference (`vink explore --against`) also what it was compared with, as the second one. */
            sides: components["schemas"]["ExploredSide"][];
        };
        /** @description A lab on an image that was explored. */
        ExploredSide: {
            /** @description What it is called where two are told apart: the image's name or the lab's. */
            name: string;
            /** @description The lab. */
            lab: string;
            /** @description The image. */
            image: string;
        };
        /** @description A run of an explored lab, from its beginning to its end. It is run when it is asked for. */
        ExploredRun: {
            /** @description Its schedule. */
            schedule: components["schemas"]["ExploredDeviation"][];
            /**
             * Format: uint64
             * @description When it ended, ns on its clock.
             */
            nanoseconds: number;
            /** @description What it breaks; none: all properties hold. Of a difference: how the two runs with this schedule differ. */
            violation?: components["schemas"]["ExploredViolation"] | null;
            /** @description Of a difference, if the two runs are not told to differ: why. */
            compared?: string | null;
            /** @description What happened, in its order. */
            events: components["schemas"]["ExploredEvent"][];
            /**
             * Format: uint64
             * @description Events behind these, which are too many to be told.
             */
            more: number;
            /** @description Programs, and how they have ended. */
            programs: components["schemas"]["ExploredProgram"][];
        };
        /** @description Something that happened in a run. */
        ExploredEvent: {
            /**
             * Format: uint64
             * @description When, ns on the run's clock.
             */
            nanoseconds: number;
            /** @description `departure`, `arrival`, `loss` of a packet, or `output` of a program. */
            kind: string;
            /** @description Where. */
            machine: string;
            /** @description The packet in a line, or what the program has written. */
            text: string;
            /** @description The program that has written it. */
            program?: string | null;
            /** @description The packet's interface, `machine:interface`. */
            end?: string | null;
            /**
             * Format: uint64
             * @description By this number the packet is asked for.
             */
            packet?: number | null;
            /**
             * Format: uint32
             * @description Of one that departs and that is searched: its number among these, from 1 on.
             */
            number?: number | null;
            /** @description What the schedule has done to it. */
            fate?: string | null;
            /** @description Why it was lost, in the kernel's words. */
            reason?: string | null;
            /**
             * Format: uint64
             * @description Of one that arrives or is lost: its departure, by its place among these events.
             */
            departure?: number | null;
        };
        /** @description A program of an explored lab. */
        ExploredProgram: {
            /** @description Where. */
            machine: string;
            /** @description Its name there. */
            name: string;
            /** @description How it has ended; none: it has not. */
            ended?: components["schemas"]["ExploredEnd"] | null;
        };
        /** @description How a program has ended. */
        ExploredEnd: {
            /**
             * Format: uint64
             * @description When, ns on the run's clock.
             */
            nanoseconds: number;
            /**
             * Format: int32
             * @description Its exit status.
             */
            status: number;
            /** @description Why it gave up. */
            error?: string | null;
        };
        /** @description What comes of a run if a packet has another fate. */
        ExploredChoice: {
            /** @description The fate. */
            fate: string;
            /** @description What the run breaks; none: all properties hold. Of a difference: how the two runs differ. */
            violation?: components["schemas"]["ExploredViolation"] | null;
        };
        /** @description A lab that was opened. */
        OpenedExplored: {
            /** @description The lab. */
            lab: string;
            /**
             * Format: uint64
             * @description The moment where it stands, ns on the run's clock.
             */
            nanoseconds: number;
            /**
             * Format: uint64
             * @description When its own clock is at 0, ns on the run's clock.
             */
            begin: number;
        };
        /** @description `POST /v1/explored/EXPLORED/open`: makes a lab in which packets have the same fates, as it is at a moment. */
        OpenExplored: {
            /** @description The schedule; the run without faults if left away. */
            schedule?: string | null;
            /**
             * Format: uint
             * @description On which of `sides`, from 0 on; the first one if left away.
             */
            side?: number;
            /**
             * Format: uint64
             * @description When, ns on the run's clock.
             */
            at: number;
            /** @description The lab's name; `LAB-at-12.5s` if left away. */
            name?: string | null;
        };
    };
    responses: {
        /** @description It could not be done */
        problem: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
    };
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    postTickets: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewTicket"];
            };
        };
        responses: {
            /** @description The answer */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Ticket"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getSession: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Session"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    postSession: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UseTicket"];
            };
        };
        responses: {
            /** @description The answer */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NewSession"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getSessions: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OpenSession"][];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    deleteSessionsSession: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Revoked"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getReady: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReadyLab"][];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getReadyName: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReadyLabFile"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    postSpecCheck: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CheckSpec"];
            };
        };
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckedSpec"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    postSpecFormat: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["FormatSpec"];
            };
        };
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FormattedSpec"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabViews: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A WebSocket: x-messages says what it carries */
            101: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            426: components["responses"]["problem"];
            default: components["responses"]["problem"];
        };
    };
    postLabsLabViewsSave: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SavedViews"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getVersion: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Version"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabs: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LabSummary"][];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLab: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LabStatus"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    putLabsLab: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PutLab"];
            };
        };
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Applied"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    deleteLabsLab: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabSpec: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Lab"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabTopology: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Topology"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabClock: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Clock"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    patchLabsLabClock: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ChangeClock"];
            };
        };
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Clock"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    postLabsLabClockRun: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RunClock"];
            };
        };
        responses: {
            /** @description The answer */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Clock"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    postLabsLabRestart: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Restarted"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    postLabsLabMachinesMachineRestart: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                machine: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Restarted"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabMachines: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MachineSummary"][];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    postLabsLabMachines: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewMachine"];
            };
        };
        responses: {
            /** @description The answer */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Machine"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabMachinesMachine: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                machine: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Machine"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    deleteLabsLabMachinesMachine: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                machine: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            default: components["responses"]["problem"];
        };
    };
    postLabsLabMachinesMachineInterfaces: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                machine: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewInterface"];
            };
        };
        responses: {
            /** @description The answer */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Interface2"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabMachinesMachineInterfacesInterface: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                machine: string;
                interface: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Interface2"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    deleteLabsLabMachinesMachineInterfacesInterface: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                machine: string;
                interface: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            default: components["responses"]["problem"];
        };
    };
    patchLabsLabMachinesMachineInterfacesInterface: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                machine: string;
                interface: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ChangeInterface"];
            };
        };
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Interface2"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabWires: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Wire"][];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    postLabsLabWires: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewWire"];
            };
        };
        responses: {
            /** @description The answer */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Wire"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabWiresWire: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                wire: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Wire"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    deleteLabsLabWiresWire: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                wire: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            default: components["responses"]["problem"];
        };
    };
    patchLabsLabWiresWire: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                wire: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ChangeWire"];
            };
        };
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Wire"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabPrograms: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Program"][];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    postLabsLabPrograms: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewProgram"];
            };
        };
        responses: {
            /** @description The answer */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Program"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabProgramsProgram: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                program: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Program"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    deleteLabsLabProgramsProgram: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                program: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Program"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    postLabsLabProgramsProgramSignal: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                program: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SendSignal"];
            };
        };
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Program"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    postLabsLabProgramsProgramInput: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                program: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ProgramInput"];
            };
        };
        responses: {
            /** @description Done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabProgramsProgramReport: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                program: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Report"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    postLabsLabMachinesMachineRelays: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                machine: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewRelay"];
            };
        };
        responses: {
            /** @description The answer */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Relay"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabRelays: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Relay"][];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabRelaysRelay: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                relay: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Relay"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    deleteLabsLabRelaysRelay: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                relay: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Relay"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabProgramsProgramOutput: {
        parameters: {
            query?: {
                follow?: boolean;
                tail?: number | null;
            };
            header?: never;
            path: {
                lab: string;
                program: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Bytes */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": unknown;
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabTerminals: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeptTerminal"][];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabProgramsProgramTerminal: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                program: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A WebSocket: x-messages says what it carries */
            101: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            426: components["responses"]["problem"];
            default: components["responses"]["problem"];
        };
    };
    getLabsLabCaptures: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Capture"][];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    postLabsLabCaptures: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewCapture"];
            };
        };
        responses: {
            /** @description The answer */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Capture"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabCapturesCapturePackets: {
        parameters: {
            query?: {
                from?: number;
                count?: number | null;
            };
            header?: never;
            path: {
                lab: string;
                capture: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CapturedPackets"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabCapturesCapturePacketsPacket: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                capture: string;
                packet: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PacketDetail"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabCapturesCaptureFile: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                capture: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Bytes */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": unknown;
                };
            };
            default: components["responses"]["problem"];
        };
    };
    deleteLabsLabCapturesCapture: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                capture: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Capture"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabBreakpoints: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Breakpoints"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    postLabsLabBreakpoints: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewBreakpoint"];
            };
        };
        responses: {
            /** @description The answer */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Breakpoint2"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    deleteLabsLabBreakpointsBreakpoint: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                breakpoint: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            default: components["responses"]["problem"];
        };
    };
    patchLabsLabBreakpointsBreakpoint: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                breakpoint: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ChangeBreakpoint"];
            };
        };
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Breakpoint2"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    postLabsLabBreakpointsBreakpointVerdict: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                breakpoint: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PacketVerdict"];
            };
        };
        responses: {
            /** @description Done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabPods: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Pod"][];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    postLabsLabPods: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewPod"];
            };
        };
        responses: {
            /** @description The answer */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Pod"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabPodsPod: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                pod: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Pod"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    postLabsLabPodsPodRevoke: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                pod: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Pod"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabPaths: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PacketPath"][];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabPathsPath: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                path: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PacketPath"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    deleteLabsLabPathsPath: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                path: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PacketPath"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabFilters: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Filter"][];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabFiltersPlace: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                place: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FilterRules"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    putLabsLabFiltersPlace: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                place: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewFilter"];
            };
        };
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Filter"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    deleteLabsLabFiltersPlace: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                place: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            default: components["responses"]["problem"];
        };
    };
    postLabsLabFiltersPlaceRollback: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                place: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Rollback"];
            };
        };
        responses: {
            /** @description The answer */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Filter"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabSeries: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Series2"][];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    postLabsLabSeries: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewSeries"];
            };
        };
        responses: {
            /** @description The answer */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Series2"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    deleteLabsLabSeriesSeries: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                series: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Series2"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabSeriesSeriesRows: {
        parameters: {
            query?: {
                from?: number | null;
                to?: number | null;
                points?: number | null;
            };
            header?: never;
            path: {
                lab: string;
                series: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SeriesRows"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabSeriesSeriesFile: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                series: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Bytes */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": unknown;
                };
            };
            default: components["responses"]["problem"];
        };
    };
    postLabsLabContinue: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            default: components["responses"]["problem"];
        };
    };
    postLabsLabMachinesMachineContinue: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
                machine: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabCapturesStream: {
        parameters: {
            query: {
                interfaces: string;
                filter?: string | null;
                snap?: number;
            };
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A WebSocket: x-messages says what it carries */
            101: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            426: components["responses"]["problem"];
            default: components["responses"]["problem"];
        };
    };
    getLabsLabFeed: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A WebSocket: x-messages says what it carries */
            101: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            426: components["responses"]["problem"];
            default: components["responses"]["problem"];
        };
    };
    getLabsLabSamplesStream: {
        parameters: {
            query: {
                machine: string;
                points: string;
                bytes: number;
                offset?: number | null;
                number?: number | null;
            };
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A WebSocket: x-messages says what it carries */
            101: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            426: components["responses"]["problem"];
            default: components["responses"]["problem"];
        };
    };
    getEvents: {
        parameters: {
            query?: {
                lab?: string | null;
                watch?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A WebSocket: x-messages says what it carries */
            101: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            426: components["responses"]["problem"];
            default: components["responses"]["problem"];
        };
    };
    getLabsLabStatistics: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Statistics"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getLabsLabStatisticsStream: {
        parameters: {
            query?: {
                interval?: components["schemas"]["Span"];
            };
            header?: never;
            path: {
                lab: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A WebSocket: x-messages says what it carries */
            101: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            426: components["responses"]["problem"];
            default: components["responses"]["problem"];
        };
    };
    getRuns: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunSummary"][];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    postRuns: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewRun"];
            };
        };
        responses: {
            /** @description The answer */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunSummary"][];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getRunsRun: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                run: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Run"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getRunsRunTimeline: {
        parameters: {
            query?: {
                from?: number | null;
                to?: number | null;
                bins?: number | null;
                end?: string | null;
            };
            header?: never;
            path: {
                run: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunTimeline"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getRunsRunEvents: {
        parameters: {
            query?: {
                from?: number | null;
                to?: number | null;
                after?: number | null;
                kinds?: string | null;
                count?: number | null;
            };
            header?: never;
            path: {
                run: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunEvent"][];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getRunsRunPackets: {
        parameters: {
            query?: {
                from?: number | null;
                to?: number | null;
                after?: number | null;
                end?: string | null;
                count?: number | null;
            };
            header?: never;
            path: {
                run: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CapturedPacket"][];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getRunsRunPacketsPacket: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                run: string;
                packet: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PacketDetail"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getRunsRunNext: {
        parameters: {
            query: {
                at: number;
                kinds?: string | null;
                back?: boolean;
            };
            header?: never;
            path: {
                run: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunEvent"][];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getRunsRunState: {
        parameters: {
            query: {
                at: number;
            };
            header?: never;
            path: {
                run: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunState"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getRunsRunTopology: {
        parameters: {
            query: {
                at: number;
            };
            header?: never;
            path: {
                run: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunTopology"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getRunsRunFlights: {
        parameters: {
            query: {
                from: number;
                to: number;
                count?: number | null;
            };
            header?: never;
            path: {
                run: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Bytes */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": unknown;
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getRunsRunViews: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                run: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A WebSocket: x-messages says what it carries */
            101: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            426: components["responses"]["problem"];
            default: components["responses"]["problem"];
        };
    };
    getRunsRunDifference: {
        parameters: {
            query: {
                with: string;
                behaviour?: boolean;
            };
            header?: never;
            path: {
                run: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunDifference"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    postRunsRunOpen: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                run: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["OpenRun"];
            };
        };
        responses: {
            /** @description The answer */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OpenedRun"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getExplored: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExploredSummary"][];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    postExplored: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewExplored"];
            };
        };
        responses: {
            /** @description The answer */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExploredSummary"][];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getExploredExplored: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                explored: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Explored"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getExploredExploredRun: {
        parameters: {
            query?: {
                schedule?: string | null;
                side?: number;
            };
            header?: never;
            path: {
                explored: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExploredRun"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getExploredExploredChoices: {
        parameters: {
            query: {
                schedule?: string | null;
                from: string;
                packet: number;
            };
            header?: never;
            path: {
                explored: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExploredChoice"][];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getExploredExploredPacketsPacket: {
        parameters: {
            query?: {
                schedule?: string | null;
                side?: number;
            };
            header?: never;
            path: {
                explored: string;
                packet: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PacketDetail"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    postExploredExploredOpen: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                explored: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["OpenExplored"];
            };
        };
        responses: {
            /** @description The answer */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OpenedExplored"];
                };
            };
            default: components["responses"]["problem"];
        };
    };
    getOpenapiJson: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OpenAPI 3.1 */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": Record<string, never>;
                };
            };
            default: components["responses"]["problem"];
        };
    };
}
